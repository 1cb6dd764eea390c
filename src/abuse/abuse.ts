/** `abuse`: lists, signals, penalties, traps and challenges for `rateLimit({ abuse })`. */

import { optionError, SluiceError, show } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import { type Duration, parseDuration } from "../base/rate.ts";
import { checkKey, isCost } from "../core/charge.ts";
import type { ObserverLike } from "../core/observer.ts";
import { isSync, originOf, type Store } from "../core/store.ts";
import { type Address, networkOf } from "../http/identity/address.ts";
import { checkKey as keyProblem } from "../http/identity/identities.ts";
import {
  type AbuseMount,
  type MountedAbuse,
  REQUEST_ABUSE,
  type RequestAbuse,
  type ScreenedMiddleware,
} from "../http/request-abuse.ts";
import type { LimitStorage } from "../http/request-charges.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { block, strike, unblock } from "../penalties/strikes.ts";
import { createLimiter } from "../remote/create-limiter.ts";
import { canonicalKey } from "./canonical-key.ts";
import { CHALLENGE } from "./challenge/challenge-types.ts";
import { LIST } from "./lists/list.ts";
import { type AbuseLimiters, type CompiledAbuse, MiddlewareAbuse } from "./mounted-abuse.ts";
import type { AbuseOptions, BlockStatus, ListOrFunction } from "./options.ts";
import {
  type AbuseStorage,
  createPenalties,
  needsFacts,
  type Penalty,
  type PenaltySpec,
  parsePenalties,
} from "./penalties.ts";
import { SIGNAL } from "./signals.ts";
import { createTarpit } from "./tarpit.ts";
import { trapMatcher } from "./traps.ts";

/** Abuse prevention for `rateLimit({ abuse })`, and its blocks. */
export interface Abuse<Args extends readonly unknown[] = readonly unknown[]> extends RequestAbuse<Args> {
  /** Blocks a key, such as `"ip:203.0.113.7"`, for at least this long. Needs a penalty for such keys. */
  block(key: string, duration: Duration): Promise<void>;
  /** Ends a block, whether set by an operator or by a penalty. Returns whether there was one. */
  unblock(key: string): Promise<boolean>;
  /** Records strikes for what only the application sees, such as hidden form fields. No effect while blocked. Default: 1. */
  strike(key: string, count?: number): Promise<void>;
  /** Returns the current block of a key; `undefined` without one. */
  status(key: string): Promise<BlockStatus | undefined>;
}

const OPTIONS = ["deny", "allow", "signals", "penalty", "traps", "challenge", "tarpit", "store", "prefix"];
/** Verifications per IP address: each is a call to the provider. */
const VERIFICATIONS = "20/m";
/** Bits of an IPv6 address that identify one client, as `identity` of middleware has it by default. */
const IPV6_PREFIX = 56;

/** Configures abuse prevention for `rateLimit({ abuse })`, with rules, policies or limiters. */
export function abuse<
  // biome-ignore lint/suspicious/noExplicitAny: apart from rateLimit, the arguments of its functions are not known
  Args extends readonly unknown[] = readonly any[],
>(options: NoInfer<AbuseOptions<Args>>): Abuse<Args> {
  checkOptions("abuse", options, OPTIONS);
  const { deny = [], allow = [], signals = [], traps, challenge, tarpit, store, prefix } = options;
  checkLists("deny", deny);
  checkLists("allow", allow);
  if (!Array.isArray(signals) || !signals.every(isSignal)) {
    throw optionError("invalid-option", "signals", "a list of signals, such as [userAgentBots()]", signals);
  }
  if (challenge !== undefined && !(typeof challenge === "object" && challenge !== null && CHALLENGE in challenge)) {
    throw optionError("invalid-option", "challenge", "a challenge made by challenge({ provider, secret })", challenge);
  }
  if (store !== undefined && typeof (store as Store | null)?.apply !== "function") {
    throw optionError("invalid-option", "store", "a store, such as memoryStore() or redisStore(client)", store);
  }
  if (prefix !== undefined && !(typeof prefix === "string" && /^[ -~]{1,48}$/.test(prefix))) {
    throw optionError("invalid-option", "prefix", "1 to 48 printable ASCII characters", prefix);
  }
  const isTrap = traps === undefined ? undefined : trapMatcher(traps);
  const penalties = parsePenalties(options.penalty, isTrap !== undefined, prefix);
  if (tarpit !== undefined && penalties.length === 0) {
    const message = "tarpit: delays responses to blocked keys; add penalty or traps, which block keys.";
    throw new SluiceError("invalid-option", message, { option: "tarpit", expected: "penalty or traps" });
  }
  const compiled: CompiledAbuse<Args> = {
    deny: [...deny],
    allow: [...allow],
    signals: [...signals],
    isTrap,
    challenge: challenge?.[CHALLENGE],
    tarpit: tarpit === undefined ? undefined : createTarpit(tarpit),
    newClearances: new WeakMap(),
  };
  return new ConfiguredAbuse(compiled, penalties, store, prefix);
}

function checkLists(option: string, lists: readonly ListOrFunction<never>[]): void {
  if (!Array.isArray(lists)) throw optionError("invalid-option", option, "a list of lists and functions", lists);
  for (const [i, list] of lists.entries()) {
    if (typeof list === "function" || (typeof list === "object" && list !== null && LIST in list)) continue;
    const expected = 'a list made by ipList() or keyList(), or a function, such as ipList(["203.0.113.0/24"])';
    throw optionError("invalid-option", `${option}[${i}]`, expected, list);
  }
}

function isSignal(signal: unknown): boolean {
  return typeof signal === "function" || (typeof signal === "object" && signal !== null && SIGNAL in signal);
}

const NO_LIMITERS: AbuseLimiters = { penalties: [], verifications: undefined };

class ConfiguredAbuse<Args extends readonly unknown[]> implements Abuse<Args> {
  private readonly compiled: CompiledAbuse<Args>;
  private readonly specs: readonly PenaltySpec[];
  private readonly prefix: string | undefined;
  private readonly ownStore: Store | undefined;
  private limiters: (AbuseLimiters & { readonly store: Store }) | undefined;
  private keyOf: (address: Address) => string = (address) => `ip:${networkOf(address, IPV6_PREFIX)}`;

  constructor(
    compiled: CompiledAbuse<Args>,
    specs: readonly PenaltySpec[],
    store: Store | undefined,
    prefix: string | undefined,
  ) {
    this.compiled = compiled;
    this.specs = specs;
    this.prefix = prefix;
    this.ownStore = store;
  }

  get [REQUEST_ABUSE](): AbuseMount<Args> {
    return {
      // The functions of the options accept the arguments of every middleware that the compiler lets them be used with.
      mount: <A extends readonly unknown[]>(middleware: ScreenedMiddleware<A>) =>
        this.mount(middleware as unknown as ScreenedMiddleware<Args>) as unknown as MountedAbuse<A>,
    };
  }

  async block(key: string, duration: Duration): Promise<void> {
    const { limiter, ownKey } = this.penaltyOf("block", key);
    await block(limiter, ownKey, parseDuration("duration", duration) as number);
  }

  async unblock(key: string): Promise<boolean> {
    const { limiter, ownKey } = this.penaltyOf("unblock", key);
    return unblock(limiter, ownKey);
  }

  async strike(key: string, count = 1): Promise<void> {
    const { limiter, ownKey } = this.penaltyOf("strike", key);
    if (!isCost(count) || count < 1) throw optionError("invalid-cost", "count", "a whole number >= 1", count);
    await strike(limiter, ownKey, count);
  }

  async status(key: string): Promise<BlockStatus | undefined> {
    const { limiter, ownKey } = this.penaltyOf("status", key);
    const { strikes = 0, blockedMs = 0 } = await limiter.inspect(ownKey);
    return blockedMs > 0 ? { retryAfterMs: blockedMs, strikes } : undefined;
  }

  private mount(middleware: ScreenedMiddleware<Args>): MountedAbuse<Args> {
    if (middleware.limiters) this.checkWithoutRules();
    if (middleware.reader.isCall && (this.compiled.challenge || this.compiled.isTrap)) {
      const option = this.compiled.challenge ? "challenge" : "traps";
      const message = `${option}: needs a middleware of an HTTP server, because a procedure or action has no response of its own.`;
      throw new SluiceError("unsupported", message, { option, expected: "a middleware of an HTTP server" });
    }
    this.checkIdentities(middleware);
    const { observer } = middleware.options as { readonly observer?: ObserverLike };
    const limiters = this.limitersFor(middleware.storage && { ...middleware.storage, observer });
    this.keyOf = (address) => middleware.keyOf(address);
    return new MiddlewareAbuse(this.compiled, limiters, middleware);
  }

  /** The limiters for a middleware whose limits are stored there. All middleware share one store: that of the first. */
  private limitersFor(storage: LimitStorage | undefined): AbuseLimiters {
    if (this.specs.length === 0 && !this.compiled.challenge) return NO_LIMITERS;
    const { limiters, ownStore } = this;
    // A store in memory belongs to this process, as every `policy` has one, so blocks may be in another.
    const isShared = !storage || ownStore || isSync(storage.store);
    if (limiters && (isShared || originOf(storage.store) === originOf(limiters.store))) return limiters;
    // A store of the options alone may end before the blocks of other middleware.
    const store = ownStore ?? (storage?.isPrivate ? memoryStore() : storage?.store);
    if (store && !limiters) return this.createLimiters(store, storage);
    const reason = limiters
      ? "One abuse() is used with limits on two stores, so processes could keep its blocks in different ones."
      : "abuse() has no store for its blocks, because rateLimit chooses its limiter for each request, or uses one of another library.";
    throw new SluiceError("invalid-option", `${reason} Pass store to abuse().`, {
      option: "store",
      expected: "a store",
    });
  }

  /** A penalty per user or API key would block nobody without a source of them. */
  private checkIdentities({ options, parts }: ScreenedMiddleware<Args>): void {
    const { facts = {} } = options as { readonly facts?: object };
    for (const { identities, option, per } of this.specs) {
      const missing = (["user", "apiKey"] as const).find(
        (part) => identities.includes(part) && !parts[part].isProvided && !Object.hasOwn(facts, part),
      );
      if (!missing) continue;
      const sources = missing === "user" ? "identity: { jwt }" : "identity: { apiKey }";
      const message = `${option}.per: ${show(per)} would block nobody, because no request has a ${missing === "user" ? "user" : "verified API key"}; set ${sources} in rateLimit, or facts.${missing} with rules.`;
      throw new SluiceError("invalid-option", message, { option: `${option}.per`, expected: sources, received: per });
    }
  }

  /** Without rules there are no facts, and no limits that end in a challenge. */
  private checkWithoutRules(): void {
    const { challenge, signals } = this.compiled;
    const withFacts = this.specs.find(needsFacts);
    const [option, reason] = challenge
      ? ["challenge", 'limits that end in a challenge are those of rules with action: "challenge"']
      : signals.length > 0
        ? ["signals", "a signal is a fact for rules"]
        : [`${withFacts?.option}.per`, `${show(withFacts?.per)} contains a fact, and only rules have facts`];
    if (!challenge && signals.length === 0 && !withFacts) return;
    const message = `${option}: needs rateLimit({ rules }), because ${reason}.`;
    throw new SluiceError("invalid-option", message, { option: option as string, expected: "rateLimit({ rules })" });
  }

  private createLimiters(store: Store, options: Partial<LimitStorage> = {}): AbuseLimiters {
    const { deadlineMs, localDenialMs, onEvent, observer } = options as Partial<AbuseStorage>;
    const given = Object.entries({ deadlineMs, localDenialMs, onEvent, observer }).filter(
      ([, value]) => value !== undefined,
    );
    const storage: AbuseStorage = { ...Object.fromEntries(given), store };
    const prefix = this.prefix === undefined ? {} : { prefix: this.prefix };
    const policy = { capacity: 20, tokensPerSecond: VERIFICATIONS, name: "challenge.verify", ...prefix } as const;
    this.limiters = {
      store,
      penalties: createPenalties(this.specs, storage),
      verifications: this.compiled.challenge && createLimiter({ ...storage, policy }),
    };
    return this.limiters;
  }

  /** The penalty of a key, and the key as requests have it. */
  private penaltyOf(method: string, key: string): Penalty & { readonly ownKey: string } {
    checkKey(key);
    const { specs, ownStore } = this;
    if (specs.length === 0) {
      const message = `${method}() needs a penalty. Set penalty: {} in abuse().`;
      throw new SluiceError("invalid-option", message, { option: "penalty", expected: "a penalty" });
    }
    const limiters = this.limiters ?? (ownStore && this.createLimiters(ownStore));
    if (!limiters) {
      const message = `${method}() has no store yet. Pass store to abuse(), or use it in rateLimit({ abuse }) first.`;
      throw new SluiceError("invalid-option", message, { option: "store", expected: "a store" });
    }
    // Joined keys first: a key of one identity may contain "+".
    const byLength = limiters.penalties.toSorted((a, b) => b.identities.length - a.identities.length);
    for (const penalty of byLength) {
      const ownKey = canonicalKey(key, penalty.identities, this.keyOf);
      if (ownKey !== undefined) return { ...penalty, ownKey };
    }
    const forms = specs.map(({ identities }) => keyProblem("", identities)).join(", or ");
    const message = `${method}() has no penalty for such keys: ${forms}.`;
    throw new SluiceError("invalid-key", message, { option: "key", expected: forms, received: key });
  }
}
