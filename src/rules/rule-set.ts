/** Rule sets: rules that are in force, and can be replaced while they are. */

import { optionError, rejectDisposed, SluiceError, show } from "../base/errors.ts";
import { isPromise } from "../base/maybe-promise.ts";
import { checkOptions } from "../base/options.ts";
import { runInSlices, runSteps, type Steps } from "../base/slices.ts";
import { emitProcessWarning } from "../base/warnings.ts";
import type { LimiterContext } from "../core/apply.ts";
import { emit } from "../core/events.ts";
import type { ObserverLike } from "../core/observer.ts";
import { isSync, type Store } from "../core/store.ts";
import { hasLeases, releaseLeases } from "../holds/leases.ts";
import { networkOf, parseAddress } from "../http/identity/address.ts";
import { MountedContext } from "../http/mounted-context.ts";
import type { ResponseData } from "../http/rejection.ts";
import { type FindCharges, type MountedMiddleware, REQUEST_RULES, type RulesMount } from "../http/request-charges.ts";
import { type RequestObserver, requestObserver } from "../http/request-observer.ts";
import { RequestValues } from "../http/request-values.ts";
import { memoryStore } from "../memory/memory-store.ts";
import type { Watcher } from "../remote/breaker.ts";
import { engineOf } from "../remote/engine.ts";
import { replaceNames } from "../remote/names.ts";
import { healthOf } from "../remote/store-health.ts";
import { emitStoreWarning } from "../remote/store-reports.ts";
import { changesBetween } from "./changes.ts";
import { notLimited } from "./charge-group.ts";
import { type Abilities, checkAbilities, checkFacts, missingAbility } from "./check-abilities.ts";
import { checkRuleSetOptions } from "./check-rule-set-options.ts";
import { PolicyTable } from "./compiled-rules.ts";
import { explainRequest, explainRules } from "./explain.ts";
import { invalidRules } from "./issues.ts";
import { LimitTexts } from "./limit-text.ts";
import { LimitWatches } from "./limit-watch.ts";
import { factsOf } from "./mounted-facts.ts";
import { Overrides } from "./overrides.ts";
import { parseInSteps } from "./parse-rules.ts";
import type { LimitSpec } from "./parsed-rules.ts";
import { RulePenalties } from "./penalties.ts";
import { RuleCharges } from "./rule-charges.ts";
import { type FoundCharges, RuleEngine } from "./rule-engine.ts";
import { matchRequest, type RuleMatch } from "./rule-match.ts";
import type { RuleDecision, RuleHoldDecision, RuleRequest, RuleSet, RulesOptions } from "./rule-set-types.ts";
import type { FactValues, RulesData } from "./rules-data.ts";

/** Bits of an IPv6 address that identify one client, as `identity` of middleware has it by default. */
const IPV6_PREFIX = 56;
/** Values of unknown plans that are reported, each once. */
const MAX_UNKNOWN_PLANS = 100;

/** Compiles rules. */
export function createRuleSet(
  what: string,
  json: unknown,
  options: RulesOptions & { readonly facts?: readonly string[] },
): RuleSet {
  checkRuleSetOptions(what, options);
  return new RulesInForce(json, options);
}

class RulesInForce implements RuleSet {
  private options: RulesOptions & { readonly facts?: readonly string[] };
  private readonly store: Store;
  private readonly watcher: Watcher;
  private readonly overrides: Overrides | undefined;
  /** What the middleware that use the rules provide, each kind once. */
  private readonly mounts: Map<string, Abilities> = new Map();
  private readonly unknownPlans: Set<string> = new Set();
  private readonly watches: LimitWatches = new LimitWatches((limit, message) => this.reportUnapplied(limit, message));
  /** Limits of rules that were replaced, with leases of requests that are in flight. */
  private leased: readonly LimiterContext[] = [];
  private engine: RuleEngine;
  private observer: RequestObserver<readonly [RuleRequest]> | undefined;
  private isDisposed = false;
  /** The last call of `replace`. Never rejects. */
  private replaced: Promise<unknown> = Promise.resolve();

  constructor(json: unknown, options: RulesOptions & { readonly facts?: readonly string[] }) {
    this.options = options;
    this.store = options.store ?? memoryStore();
    const { onEvent } = options;
    this.observer = requestObserver(options.observer, { method: ([{ method }]) => method });
    this.overrides =
      options.overrides &&
      new Overrides(options.overrides, (limit, key, text) => parseOverride(limit, key, text), {
        onEvent,
        // A middleware may add an observer later.
        observed: { port: { transition: (event) => this.observer?.port.transition(event) } },
      });
    this.engine = runSteps(this.build(json));
    runSteps(replaceNames(this.store, [], this.engine.table.all()));
    this.watcher = {
      down: (error) => emit({ onEvent }, { type: "store-down", policy: "", error }),
      up: (downMs) => emit({ onEvent }, { type: "store-up", policy: "", downMs }),
      degraded: (error, count) => emit({ onEvent }, { type: "degraded", policy: "", error, count }),
    };
    if (onEvent && !isSync(this.store)) {
      healthOf(this.store).watch(this.watcher);
      emitStoreWarning({ engine: { store: this.store }, context: { onEvent }, policy: { name: "" } });
    }
    this.observer?.port.rules(this.version, "loaded");
  }

  get version(): string {
    return this.engine.parsed.version;
  }

  get data(): Readonly<RulesData> {
    return this.engine.parsed.data;
  }

  get [REQUEST_RULES](): RulesMount {
    return {
      facts: this.engine.parsed.facts,
      storage: { ...this.options, store: this.store, isPrivate: this.options.store === undefined },
      mount: (middleware) => this.mount(middleware),
    };
  }

  find(method: string, path: string, facts: FactValues<string> = {}): RuleMatch {
    return matchRequest(this.engine, method, path, facts);
  }

  async consume(request: RuleRequest): Promise<RuleDecision> {
    const charges = await this.chargesOf("consume", request);
    if (!(charges instanceof RuleCharges)) return charges;
    if (charges.isHeld) {
      const rule = charges.firstRule;
      const message = `Rule "${rule}" holds amounts or has a concurrency limit. Use hold(), and settle the hold when the work is done.`;
      throw new SluiceError("unsupported", message, { option: "consume", expected: "hold()", received: rule });
    }
    return this.apply(request, charges);
  }

  async hold(request: RuleRequest): Promise<RuleHoldDecision> {
    const charges = await this.chargesOf("hold", request);
    if (!(charges instanceof RuleCharges)) {
      const hold = new RuleCharges(engineOf(this.store), charges.rule, [], []).holdOf(charges);
      return Object.assign(charges, { hold }) as RuleHoldDecision;
    }
    if (!charges.isHeld && !charges.mayHold) {
      const rule = charges.firstRule;
      const message = `Rule "${rule}" has nothing to hold. Use consume().`;
      throw new SluiceError("unsupported", message, { option: "hold", expected: "consume()", received: rule });
    }
    const decision = await this.apply(request, charges);
    return decision.allowed ? Object.assign(decision, { hold: charges.holdOf(decision) }) : decision;
  }

  explain(method?: string, path?: string, facts: FactValues<string> = {}): string {
    if (method === undefined || path === undefined) return explainRules(this.engine);
    return explainRequest(this.engine, method, path, facts);
  }

  replace(next: unknown): Promise<readonly string[]> {
    // One after the other, so that the rules of the last call are in force at the end.
    const replaced = this.replaced.then(() => this.replaceNow(next));
    this.replaced = replaced.catch(() => {});
    return replaced;
  }

  /** In slices: requests are decided by the old rules meanwhile. */
  private async replaceNow(next: unknown): Promise<readonly string[]> {
    if (this.isDisposed) rejectDisposed("rule set");
    let engine: RuleEngine;
    try {
      engine = await this.prepare(next);
    } catch (error) {
      this.observer?.port.rules(this.version, "rejected");
      this.observer?.port.transition({ type: "rules-rejected", version: this.version });
      throw error;
    }
    const before = this.engine;
    this.use(engine);
    const changes = await inSlices(changesBetween(before, engine));
    this.observer?.port.rules(this.version, "applied");
    this.observer?.port.transition({ type: "rules-replaced", version: this.version, changes: changes.length });
    return changes;
  }

  /** Builds the next engine and claims its names. Middleware may be mounted, and the rules disposed of, meanwhile. */
  private async prepare(next: unknown): Promise<RuleEngine> {
    let options: RulesOptions;
    let engine: RuleEngine;
    const check = (): void => {
      for (const abilities of this.mounts.values()) checkAbilities(engine.parsed, abilities);
    };
    do {
      options = this.options;
      engine = await inSlices(this.build(next));
    } while (options !== this.options);
    check();
    const [old, claimed] = [this.engine.table.all(), engine.table.all()];
    await inSlices(replaceNames(this.store, old, claimed));
    try {
      if (this.isDisposed) rejectDisposed("rule set");
      check();
    } catch (error) {
      runSteps(replaceNames(this.store, claimed, this.isDisposed ? [] : old));
      throw error;
    }
    return options === this.options ? engine : runSteps(this.build(next));
  }

  /** One assignment: requests that have started keep the rules that they were matched with. */
  private use(engine: RuleEngine): void {
    const before = this.engine;
    this.engine = engine;
    this.leased = [...this.leased, ...before.table.failurePolicies()].filter(hasLeases);
  }

  private async apply(request: RuleRequest, charges: RuleCharges): Promise<RuleDecision> {
    const { observer } = this;
    const decision = await (observer ? observer.apply(charges, true) : charges.apply());
    observer?.decided([request], charges, decision, "enforce");
    return decision as RuleDecision;
  }

  /** Observes the policies of the rules from now on, unless they are observed already. */
  private observeFrom(observer: ObserverLike | undefined): void {
    if (observer === undefined || this.observer) return;
    this.options = { ...this.options, observer };
    this.observer = requestObserver(observer, { method: ([{ method }]) => method });
    this.use(runSteps(this.build(this.data)));
    this.observer?.port.rules(this.version, "loaded");
  }

  async dispose(): Promise<void> {
    if (this.isDisposed) return;
    this.isDisposed = true;
    healthOf(this.store).unwatch(this.watcher);
    runSteps(replaceNames(this.store, this.engine.table.all(), []));
    await Promise.all([...this.leased, ...this.engine.table.failurePolicies()].map(releaseLeases));
    if (!this.options.store) await this.store.dispose();
  }

  private *build(json: unknown): Steps<RuleEngine> {
    const result = yield* parseInSteps(json);
    if (result.issues) throw invalidRules(result.issues);
    const { rules } = result;
    if (this.options.facts) checkFacts(rules, this.options.facts);
    const { prefix, deadlineMs, instances, localDenialMs, onEvent, observer } = this.options;
    const failure = { deadlineMs, instances, localDenialMs, onEvent, observer };
    const given = Object.fromEntries(Object.entries(failure).filter(([, value]) => value !== undefined));
    const table = new PolicyTable({ store: this.store, prefix, ...given });
    const { overrides, watches } = this;
    const storeEngine = engineOf(this.store);
    const onUnknownPlan = (plan: string): void => this.reportPlan(plan);
    return yield* RuleEngine.build({ parsed: rules, table, storeEngine, overrides, onUnknownPlan, watches });
  }

  private mount<Args extends readonly unknown[]>(middleware: MountedMiddleware<Args>): FindCharges<Args> {
    if (this.isDisposed) rejectDisposed("rule set");
    this.observeFrom((middleware.options as { readonly observer?: ObserverLike }).observer);
    const facts = factsOf(middleware);
    const { abuse } = middleware;
    const abilities: Abilities = { facts: Object.keys(facts).sort(), abuse };
    checkAbilities(this.engine.parsed, abilities);
    const provided = abuse && [
      abuse.hasChallenge,
      abuse.hasStrikes,
      abuse.hasTraps,
      ...["bot", "other"].map((one) => abuse.mayProvide(one)),
    ];
    this.mounts.set(`${abilities.facts.join()} ${provided}`, abilities);
    const penalties = abuse && abuse.penalties.length > 0 ? new RulePenalties(abuse.penalties) : undefined;
    return (args, values = new RequestValues(new MountedContext(middleware, facts, args))) => {
      if (this.isDisposed) rejectDisposed("rule set");
      const found = this.engine.chargesFor(values, penalties);
      return isPromise(found) ? found.then(responseFor) : responseFor(found);
    };
  }

  /** The charges of a request without a server, or the decision on one that is exempt. */
  private async chargesOf(what: string, request: RuleRequest): Promise<RuleCharges | RuleDecision> {
    if (this.isDisposed) rejectDisposed("rule set");
    checkOptions(what, request, ["method", "path", "ip", "facts"]);
    const { method, path, ip, facts = {} } = request;
    for (const [name, value] of Object.entries({ method, path })) {
      if (typeof value !== "string" || value === "")
        throw optionError("invalid-option", name, "a string that is not empty", value);
    }
    const address = parseAddress(ip);
    if (ip !== undefined && !address) throw optionError("invalid-option", "ip", "an IP address", ip);
    const none = (): undefined => undefined;
    const values = new RequestValues({
      method,
      path,
      ip: () => address && `ip:${networkOf(address, IPV6_PREFIX)}`,
      user: none,
      apiKey: none,
      fact: (name) => (Object.hasOwn(facts, name) ? facts[name] : undefined),
    });
    const found = await this.engine.chargesFor(values);
    if (found === "ambiguous") {
      const message = `The path ${show(path)} matches too many rules in its different readings. Reject the request.`;
      throw new SluiceError("too-many-charges", message, { option: "path", expected: "a usual path", received: path });
    }
    if (found !== "exempt") {
      for (const rule of found.foundRules) {
        const missing = missingAbility(rule, undefined);
        if (!missing) continue;
        const message = `${what}() can't challenge or block callers. Use rateLimit({ rules, abuse }) for rule "${rule.name}". ${missing.message}`;
        throw new SluiceError("unsupported", message, { ...missing, received: rule.name });
      }
      return found;
    }
    const { rule } = this.find(method, path, facts);
    return Object.assign(notLimited(), { rule });
  }

  private reportUnapplied(policy: string, message: string): void {
    const { onEvent } = this.options;
    emit({ onEvent, observed: this.observer }, { type: "warning", policy, message });
    if (!onEvent) emitProcessWarning("SLUICE_LIMIT_NOT_APPLIED", message);
  }

  private reportPlan(plan: string): void {
    const { unknownPlans } = this;
    if (unknownPlans.size >= MAX_UNKNOWN_PLANS || unknownPlans.has(plan)) return;
    unknownPlans.add(plan);
    const { onEvent } = this.options;
    if (onEvent || this.observer)
      emit({ onEvent, observed: this.observer }, { type: "unknown-plan", policy: "", plan });
    if (onEvent) return;
    if (unknownPlans.size === 1) {
      const message = `A caller has the plan ${show(plan)}, which the rules don't list, and is limited by defaultPlan. Set onEvent to receive every such plan.`;
      emitProcessWarning("SLUICE_UNKNOWN_PLAN", message);
    }
  }
}

/** Does the work in slices. */
function inSlices<T>(steps: Steps<T>): Promise<T> {
  return runInSlices(steps, () => true) as Promise<T>;
}

/** What the gate does with the result: a request that is exempt has no charges. */
function responseFor(found: FoundCharges): RuleCharges | ResponseData | undefined {
  if (found === "exempt") return undefined;
  return found === "ambiguous" ? AMBIGUOUS : found;
}

/** Validates the text that `overrides` returned. */
function parseOverride(limit: string, key: string, text: unknown): LimitSpec {
  const spec = typeof text === "string" ? new LimitTexts().parse(text) : `${show(text)} is not a limit`;
  if (typeof spec !== "string") return spec;
  const message = `overrides("${limit}", ${show(key)}) returned an invalid limit: ${spec}.`;
  throw new SluiceError("invalid-rules", message, { option: "overrides", received: text });
}

/** The response to a path that matches too many rules. Without details, which would describe the rules. */
const AMBIGUOUS: ResponseData = {
  status: 400,
  headers: { "Cache-Control": "no-store", "Content-Type": "application/problem+json" },
  body: JSON.stringify({
    type: "about:blank",
    title: "Bad Request",
    status: 400,
    detail: "The path of this request is ambiguous.",
  }),
};
