/** Abuse prevention of one middleware: lists, traps and challenges in the order in which a request meets them. */

import { SluiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { Decision } from "../core/decision.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Facts } from "../http/mounted-context.ts";
import { plainProblem, type ResponseData } from "../http/rejection.ts";
import type { DeniedPreflight, MountedAbuse, ScreenedMiddleware, ScreenedRequest } from "../http/request-abuse.ts";
import type { RequestCharges } from "../http/request-charges.ts";
import { RequestValues } from "../http/request-values.ts";
import type { ResponseFields } from "../http/response.ts";
import { strike } from "../penalties/strikes.ts";
import type { ChallengeHandler } from "./challenge/challenge-types.ts";
import { LIST, type ListedClient } from "./lists/list.ts";
import type { ListOrFunction } from "./options.ts";
import { blockOf, checkPenalizable, withPenalties } from "./penalized-charges.ts";
import type { Penalty } from "./penalties.ts";
import { ScreenedContext, type ScreeningParts } from "./screened-context.ts";
import { SIGNAL, type Signal } from "./signals.ts";
import type { Tarpit } from "./tarpit.ts";
import { mayBeCausedByPage } from "./traps.ts";

/** What the options of `abuse` were compiled to. */
export interface CompiledAbuse<Args extends readonly unknown[]> {
  readonly deny: readonly ListOrFunction<Args>[];
  readonly allow: readonly ListOrFunction<Args>[];
  readonly signals: readonly Signal<Args>[];
  readonly isTrap: ((target: string) => boolean) | undefined;
  readonly challenge: ChallengeHandler | undefined;
  readonly tarpit: Tarpit | undefined;
  /** The clearances that tokens of requests were exchanged for: a second middleware can't use the token again. */
  readonly newClearances: WeakMap<object, string>;
}

/** The limiters of `abuse` on their store. */
export interface AbuseLimiters {
  readonly penalties: readonly Penalty[];
  /** Limits verifications per IP address. */
  readonly verifications: RateLimiter | undefined;
}

/** Keys of lists, by what they start with. Others are those of facts. */
const IDENTITIES: Readonly<Record<string, string>> = { key: "apiKey", net: "network" };

/** The response to a request for a trap: an ordinary one. */
const NOT_FOUND: ResponseData = {
  status: 404,
  headers: { "Cache-Control": "no-store", "Content-Type": "text/plain; charset=utf-8" },
  body: "Not Found\n",
};

/** Abuse prevention of one middleware. */
export class MiddlewareAbuse<Args extends readonly unknown[]> implements MountedAbuse<Args> {
  readonly penalties: readonly Penalty[];
  readonly hasChallenge: boolean;
  readonly hasStrikes: boolean;
  readonly hasTraps: boolean;
  private readonly compiled: CompiledAbuse<Args>;
  private readonly screening: ScreeningParts<Args>;
  private readonly isShadow: boolean;
  private readonly penaltyNames: ReadonlySet<string>;

  constructor(compiled: CompiledAbuse<Args>, limiters: AbuseLimiters, middleware: ScreenedMiddleware<Args>) {
    const { challenge, signals } = compiled;
    const { penalties, verifications } = limiters;
    const { facts = {} } = middleware.options as { readonly facts?: Facts<Args> };
    this.compiled = compiled;
    this.screening = { middleware, facts, signals, challenge, verifications };
    this.isShadow = (middleware.options as { readonly mode?: string }).mode === "shadow";
    // Blocks are shared with middleware that enforces them.
    this.penalties = this.isShadow ? penalties.map((penalty) => ({ ...penalty, isStruck: false })) : penalties;
    if (middleware.limiters && penalties.length > 0) checkPenalizable(middleware.limiters, penalties);
    this.hasChallenge = challenge !== undefined;
    this.hasTraps = compiled.isTrap !== undefined;
    this.hasStrikes = penalties.some(({ isStruck }) => isStruck);
    this.penaltyNames = new Set(penalties.map(({ limiter }) => limiter.getPolicy().name));
  }

  mayProvide(fact: string): boolean {
    if (fact === "bot") return this.compiled.signals.length > 0;
    return this.compiled.signals.some((signal) => typeof signal === "function" && !(SIGNAL in signal));
  }

  enter(args: Args): MaybePromise<ScreenedRequest | ResponseData | "exempt"> {
    const { deny, allow } = this.compiled;
    const context = new ScreenedContext(this.screening, args);
    const values = new RequestValues(context);
    const denied = this.isShadow ? [] : deny;
    if (denied.length === 0 && allow.length === 0) return this.afterLists(context, values);
    const client = listedClient(context, values);
    return andThen(this.isListed("deny", denied, client, args), (isDenied) => {
      if (isDenied) return this.forbid(context);
      // An entry for a proxy would exempt all of its clients.
      const allowed = { ...client, address: () => context.ownAddress() };
      return andThen(this.isListed("allow", allow, allowed, args), (isAllowed) =>
        isAllowed ? "exempt" : this.afterLists(context, values),
      );
    });
  }

  enterPreflight(args: Args): MaybePromise<ResponseData | DeniedPreflight | undefined> {
    const context = new ScreenedContext(this.screening, args);
    const client = listedClient(context, new RequestValues(context));
    const isDenied = this.isListed("deny", this.compiled.deny, client, args);
    return andThen(isDenied, (isDenied) => (isDenied ? this.forbid(context) : blockOf(this.penalties, context)));
  }

  /** Whether one of the lists contains the client. They are asked one after the other. */
  private isListed(
    option: "deny" | "allow",
    lists: readonly ListOrFunction<Args>[],
    client: ListedClient,
    args: Args,
    from = 0,
  ): MaybePromise<boolean> {
    const list = lists[from];
    if (list === undefined) return false;
    const { middleware } = this.screening;
    const found =
      typeof list === "function" ? middleware.withDeadline(`abuse.${option}`, list(...args)) : list[LIST].has(client);
    return andThen(found, (isFound) => (isFound ? true : this.isListed(option, lists, client, args, from + 1)));
  }

  private forbid(context: ScreenedContext<Args>): ResponseData {
    this.screening.middleware.observer?.blocked("list");
    return plainProblem(403, "Forbidden", undefined, context.header("accept"));
  }

  penalize(charges: RequestCharges, { values }: ScreenedRequest): MaybePromise<RequestCharges> {
    return withPenalties(this.screening.middleware, this.penalties, charges, values);
  }

  delayBlocked({ parts, policy }: Decision): Promise<void> | undefined {
    const { tarpit } = this.compiled;
    if (!tarpit) return undefined;
    const isBlocked = parts
      ? parts.some((part) => !part.allowed && this.penaltyNames.has(part.policy))
      : this.penaltyNames.has(policy);
    return isBlocked ? tarpit() : undefined;
  }

  private afterLists(
    context: ScreenedContext<Args>,
    values: RequestValues,
  ): MaybePromise<ScreenedRequest | ResponseData> {
    const { challenge, isTrap } = this.compiled;
    // In shadow mode, a request continues as it is: traps strike nobody, and tokens are left to other middleware.
    if (this.isShadow) return screened(context, values, undefined, challenge);
    if (isTrap?.(context.path)) {
      this.screening.middleware.observer?.blocked("trap");
      return this.spring(context, values);
    }
    return challenge ? this.afterSolution(challenge, context, values) : screened(context, values, undefined, challenge);
  }

  /** Blocks the IP address of a request to a trap, unless a web page may have caused it, or a verified user sent it. */
  private spring(context: ScreenedContext<Args>, values: RequestValues): MaybePromise<ResponseData> {
    const address = context.ownAddress();
    if (!address || mayBeCausedByPage(context)) return NOT_FOUND;
    return andThen(
      values.later(() => values.key(["user"])),
      (user): MaybePromise<ResponseData> => {
        if (user !== undefined) return NOT_FOUND;
        const { limiter, spec } = this.penalties.find(({ spec }) => spec.per === "ip") as Penalty;
        return strike(limiter, this.screening.middleware.keyOf(address), spec.strikes).then(() => NOT_FOUND);
      },
    );
  }

  /** Answers a solution, or exchanges a token for a clearance that this request already uses. */
  private afterSolution(
    challenge: ChallengeHandler,
    context: ScreenedContext<Args>,
    values: RequestValues,
  ): MaybePromise<ScreenedRequest | ResponseData> {
    const { newClearances } = this.compiled;
    const request = context.challenged;
    if (challenge.isSolution(request)) {
      return challenge.solve(request).then((response) => {
        // 405 is not a solution, and 429 is a denial, or a provider that is down and was reported.
        if (response.status === 204) context.observer?.challenge("", "solved");
        else if (response.status === 403) context.observer?.challenge("", "failed");
        return response;
      });
    }
    const token = challenge.tokenOf(request);
    if (token === undefined) return screened(context, values, undefined, challenge);
    const [first] = context.args as readonly object[] as readonly [object];
    context.newClearance = newClearances.get(first);
    if (context.newClearance !== undefined || challenge.clearanceOf(request) !== undefined) {
      return screened(context, values, undefined, challenge);
    }
    return challenge.verify(token, request).then((result) => {
      if ("status" in result) {
        if (result.status === 403) context.observer?.challenge("", "failed");
        return result;
      }
      context.observer?.challenge("", "solved");
      newClearances.set(first, result.id);
      context.newClearance = result.id;
      return screened(context, values, result.set, challenge);
    });
  }
}

function screened<Args extends readonly unknown[]>(
  context: ScreenedContext<Args>,
  values: RequestValues,
  set: ResponseFields | undefined,
  handler: ChallengeHandler | undefined,
): ScreenedRequest {
  return {
    values,
    set,
    challenge(rule) {
      if (handler) {
        context.observer?.challenge(rule, "issued");
        return handler.respond(context.challenged, rule);
      }
      // Rules with challenges are refused without a handler.
      throw new SluiceError("invalid-option", `Rule "${rule}" needs abuse({ challenge }).`, { option: "challenge" });
    },
  };
}

function listedClient<Args extends readonly unknown[]>(
  context: ScreenedContext<Args>,
  values: RequestValues,
): ListedClient {
  return {
    address: () => context.address(),
    key: (kind) => values.later(() => values.key([IDENTITIES[kind] ?? kind])),
    reports: context.reports,
  };
}
