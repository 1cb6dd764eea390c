/** The hosts that the dashboard answers for: another site's name may resolve to this server's address. */
import { optionError } from "../../base/errors.ts";
import { hostOf } from "./access.ts";

/** A loopback name or an IP address, which no other site can have as its name. */
const ADDRESS = /^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f:.]+\])$/;
const HOST = /^(?:[a-z\d_](?:[a-z\d_.-]{0,252}[a-z\d_])?|\[[\da-f:.]+\])(?::\d{1,5})?$/;
const PORT = /:\d{1,5}$/;

/** Validates `hosts`, and returns the function that applies it. */
export function hostCheck(hosts: readonly string[] = []): (request: Request) => boolean {
  if (!Array.isArray(hosts)) throw optionError("invalid-option", "hosts", 'a list such as ["ops.example.com"]', hosts);
  const known = new Set(hosts.map(checkHost));
  return (request) => {
    const host = hostOf(request);
    const name = host.replace(PORT, "");
    return ADDRESS.test(name) || known.has(host) || known.has(name);
  };
}

function checkHost(host: unknown, i: number): string {
  if (typeof host === "string" && HOST.test(host.toLowerCase())) return host.toLowerCase();
  const expected = 'a host name without a scheme or path, such as "ops.example.com" or "ops.example.com:8443"';
  throw optionError("invalid-option", `hosts[${i}]`, expected, host);
}
