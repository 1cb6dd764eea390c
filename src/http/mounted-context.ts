/** Requests of a middleware, as rules and abuse prevention read them. */
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { MountedMiddleware } from "./request-charges.ts";
import type { RequestContext } from "./request-context.ts";

/** The functions of facts by name. */
export type Facts<Args extends readonly unknown[]> = Readonly<Record<string, ((...args: Args) => unknown) | undefined>>;

/** The context of a request. A class, because one is created per request and an object of functions costs more. */
export class MountedContext<Args extends readonly unknown[]> implements RequestContext {
  protected readonly middleware: MountedMiddleware<Args>;
  protected readonly facts: Facts<Args>;
  readonly args: Args;

  constructor(middleware: MountedMiddleware<Args>, facts: Facts<Args>, args: Args) {
    this.middleware = middleware;
    this.facts = facts;
    this.args = args;
  }

  /** As it was sent. Rules and challenges compare it in upper case. */
  get method(): string {
    return this.middleware.reader.method(this.args);
  }

  get path(): string {
    return this.middleware.reader.path(this.args);
  }

  ip(): string | undefined {
    return this.middleware.parts.ip(this.args);
  }

  user(): MaybePromise<string | undefined> {
    return this.middleware.parts.user(this.args);
  }

  apiKey(): MaybePromise<string | undefined> {
    return this.middleware.parts.apiKey(this.args);
  }

  readsMissingBody(name: string): boolean {
    const [first] = this.args as readonly unknown[] as readonly [
      { readonly body?: unknown; readonly request?: { readonly body?: unknown } } | undefined,
    ];
    const fact = Object.hasOwn(this.facts, name) ? String(this.facts[name]) : "";
    // Koa has it in `context.request`. Where a body is read by calling a function, it is never missing.
    return /\bbody\b/.test(fact) && first?.body === undefined && first?.request?.body === undefined;
  }

  fact(name: string): MaybePromise<unknown> {
    return this.facts[name]?.(...this.args);
  }
}
