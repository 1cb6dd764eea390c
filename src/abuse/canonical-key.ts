/** Keys as an operator writes them, in the spelling that requests have. */
import { optionError } from "../base/errors.ts";
import { type Address, networkOf, parseAddress, widerNetworkOf } from "../http/identity/address.ts";
import { checkKey, kindsOf } from "../http/identity/identities.ts";

/** The key of these identities; `undefined` if it is one of others. `keyOf` returns the key of an address. */
export function canonicalKey(
  key: string,
  identities: readonly string[],
  keyOf: (address: Address) => string,
): string | undefined {
  const parts = identities.length > 1 ? splitKey(key, identities) : [key];
  if (!parts || checkKey(parts.join("+"), identities) !== undefined) return undefined;
  return parts.map((part) => canonicalPart(part, keyOf)).join("+");
}

/** The parts of a joined key, with "+" escaped as requests have it: an e-mail address may contain one. */
function splitKey(key: string, identities: readonly string[]): string[] | undefined {
  const forms = identities.map((identity) => `((?:${kindsOf(identity).join("|")}):.+?)`);
  const [, ...parts] = new RegExp(`^${forms.join("\\+")}$`, "s").exec(key) ?? [];
  if (parts.length === 0) return undefined;
  if (/%(?!25|2B)/.test(key)) throw optionError("invalid-key", "key", 'a key in which "%" is written as "%25"');
  return parts.map((part) => part.replaceAll("+", "%2B"));
}

function canonicalPart(part: string, keyOf: (address: Address) => string): string {
  const [, kind, text = "", bits] = /^(ip|net):([^/]*)(?:\/(\d{1,3}))?$/.exec(part) ?? [];
  if (kind === undefined) return /^(?:ip|net):/.test(part) ? invalidAddress() : part;
  const address = parseAddress(text);
  if (!address) return invalidAddress();
  if (kind === "net") {
    const network = `net:${widerNetworkOf(address)}`;
    return bits === undefined || network.endsWith(`/${bits}`) ? network : invalidAddress();
  }
  if (bits === undefined) return keyOf(address);
  // The network of a client, as `ipv6Prefix` of identity has it.
  const isNetwork = address.kind() === "ipv6" && Number(bits) >= 32 && Number(bits) <= 64;
  return isNetwork ? `ip:${networkOf(address, Number(bits))}` : invalidAddress();
}

function invalidAddress(): never {
  const expected =
    'one IP address after "ip:", such as ip:203.0.113.7, or its /24 or /48 after "net:"; for ranges, use deny: [ipList(ranges)]';
  throw optionError("invalid-key", "key", expected);
}
