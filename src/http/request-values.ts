/** The facts and identities of one request. Each is computed when it is first needed, and at most once. */
import { SluiceError, show } from "../base/errors.ts";
import { isPromise, type MaybePromise } from "../base/maybe-promise.ts";
import { parseAddress, widerNetworkOf } from "./identity/address.ts";
import type { RequestContext } from "./request-context.ts";

/** A value that is not known yet. It is in the list of pending ones. */
export const PENDING: unique symbol = Symbol("pending");

/** A value, or `PENDING`. */
export type Known<T> = T | typeof PENDING;

/** A fact about a request. */
export type Fact = string | number | undefined;

/** The values of one request. */
export class RequestValues {
  readonly context: RequestContext;
  /** Names and values. A request has a few, so that two lists are faster than a map. */
  private readonly names: string[] = [];
  private readonly values: unknown[] = [];
  private pending: PromiseLike<unknown>[] = [];

  constructor(context: RequestContext) {
    this.context = context;
  }

  /** Resolves when all values that were pending are known. Rejects if one of them fails. */
  settled(): Promise<unknown> {
    const { pending } = this;
    this.pending = [];
    return Promise.all(pending);
  }

  /** Awaits what is pending, for callers that need one value. */
  later<T>(read: () => Known<T>): MaybePromise<T> {
    const value = read();
    return value === PENDING ? this.settled().then(() => this.later(read)) : value;
  }

  /** A fact. An empty text is an unknown fact, because it would be one key for all callers without it. */
  fact(name: string): Known<Fact> {
    return this.value(
      name,
      () => this.context.fact(name),
      (value) => checkFact(name, value),
    );
  }

  /** The key of a caller for limits per these identities; `undefined` if one of them is unknown. */
  key(identities: readonly string[]): Known<string | undefined> {
    const [only] = identities;
    if (identities.length === 1) return this.identity(only as string);
    const parts: string[] = [];
    let isPending = false;
    for (const name of identities) {
      const part = this.identity(name);
      if (part === PENDING) isPending = true;
      else if (part === undefined) return undefined;
      else parts.push(part.replace(/[%+]/g, (sign) => (sign === "%" ? "%25" : "%2B")));
    }
    return isPending ? PENDING : parts.join("+");
  }

  /** The same for penalties. Clients that share an IP address, because theirs is unknown, are not blocked together. */
  penaltyKey(identities: readonly string[]): Known<string | undefined> {
    const key = this.key(identities);
    if (key === PENDING || key === undefined || this.context.hasOwnAddress?.() !== false) return key;
    return this.isByAddress(identities) ? undefined : key;
  }

  /** Whether a denial may be a strike for such a key, once it is known. The clients of a proxy are not blocked together. */
  mayStrike(identities: readonly string[]): boolean {
    return this.context.mayBeProxy?.() !== true || !this.isByAddress(identities);
  }

  private isByAddress(identities: readonly string[]): boolean {
    return identities.some(
      (name) => name === "ip" || name === "network" || (name === "client" && this.client() === this.identity("ip")),
    );
  }

  private identity(name: string): Known<string | undefined> {
    switch (name) {
      case "global":
        return "global";
      case "ip":
        return this.text(name, () => this.context.ip());
      case "network":
        return this.network();
      case "user":
        return this.credential(name, "user");
      case "apiKey":
        return this.credential(name, "key");
      case "client":
        return this.client();
      default: {
        const fact = this.fact(name);
        return fact === PENDING || fact === undefined ? fact : `${name}:${fact}`;
      }
    }
  }

  /** The network that the IP address is probably routed with: /24 of IPv4, /48 of IPv6. */
  private network(): Known<string | undefined> {
    const key = this.identity("ip");
    if (key === PENDING || key === undefined) return key;
    // The key of an IPv6 address is that of a network already: ip:2001:db8:1:100::/56.
    const [text = ""] = key.slice("ip:".length).split("/");
    const address = parseAddress(text);
    return `net:${address ? widerNetworkOf(address) : text}`;
  }

  /** The user, else the holder of an API key, else the IP address. */
  private client(): Known<string | undefined> {
    const user = this.identity("user");
    if (user !== undefined) return user;
    const holder = this.identity("apiKey");
    return holder !== undefined ? holder : this.identity("ip");
  }

  /** A fact of the application, else what `identity` has verified. A token is verified only if that is needed. */
  private credential(name: "user" | "apiKey", kind: string): Known<string | undefined> {
    const fact = this.fact(name);
    if (fact === PENDING) return PENDING;
    return fact === undefined ? this.text(name, () => this.context[name]()) : `${kind}:${fact}`;
  }

  /** What was found for a limit and a key. The id contains a line break, which no name of a fact has. */
  override<T>(id: string, compute: () => MaybePromise<T>): Known<T> {
    return this.value(id, compute, (value) => value as T);
  }

  private text(
    name: keyof typeof VERIFIED,
    compute: () => MaybePromise<string | undefined>,
  ): Known<string | undefined> {
    return this.value(VERIFIED[name], compute, (value) => value as string | undefined);
  }

  private value<T>(id: string, compute: () => unknown, check: (value: unknown) => T): Known<T> {
    const { names, values } = this;
    const known = names.indexOf(id);
    if (known >= 0) return values[known] as Known<T>;
    const computed = compute();
    const value = isPromise(computed) ? PENDING : check(computed);
    const place = names.push(id) - 1;
    values[place] = value;
    if (value === PENDING) {
      const settled = (computed as PromiseLike<unknown>).then((result) => void (values[place] = check(result)));
      // A search can end without this value, such as if another condition is not met. Nothing awaits it then.
      settled.then(undefined, () => {});
      this.pending.push(settled);
    }
    return value;
  }
}

/** Identities among the values. No fact has such a name. */
const VERIFIED = { ip: "@ip", user: "@user", apiKey: "@apiKey" } as const;

function checkFact(name: string, value: unknown): Fact {
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value === "string" || (typeof value === "number" && Number.isFinite(value))) return value;
  const expected = "a string, a finite number or undefined";
  const message = `facts.${name} must return ${expected}, but returned ${show(value)}.`;
  throw new SluiceError("invalid-option", message, { option: `facts.${name}`, expected, received: value });
}
