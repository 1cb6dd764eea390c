/** What another layer adds to the gate. Not a part of the public contract. */
import type { ServerResponse } from "node:http";
import { andThen, isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import type { ResponseData } from "../../http/rejection.ts";
import type { ResponseFields } from "../../http/response.ts";
import type { HandlerArgs, RequestBody, RequestReader } from "./request-reader.ts";

/** The member of `rateLimit`'s options with an extension. Registered, because the two builds of the package share it. */
export const EXTENSION: unique symbol = Symbol.for("sluice.extension");

/** Sees every request before it is counted: after CORS preflights and `skip`. */
export interface GateExtension<Args extends HandlerArgs> {
  /**
   * Answers a request in place of the limiter and the handler, adds to its response, or returns `undefined`. Errors are
   * handled like those of `key`.
   */
  enter(request: ExtensionRequest<Args>): MaybePromise<ResponseData | ExtensionPass | undefined>;
}

/** A request as an extension sees it. Every member is read when it is used. */
export interface ExtensionRequest<Args extends HandlerArgs> {
  readonly args: Args;
  /** In upper case. */
  readonly method: string;
  /** The target of the request as the server received it: path and query. */
  readonly path: string;
  /** `request.cf` on Workers. */
  readonly extra: unknown;
  /** The IP address at the other end of the socket. */
  readonly peer: string | undefined;
  /** A request header by its lower-case name. */
  header(name: string): string | undefined;
  /** Reads the body of a request that will be answered; see `RequestReader.body`. */
  body(maxBytes: number): Promise<RequestBody | undefined>;
}

/** What is added to the response of a request, whether the limiter allows it, rejects it or fails. */
export interface ExtensionPass {
  /** Fields to set, whatever the status or caching of the response. Cookies are added to those of the application. */
  readonly set?: ResponseFields | undefined;
  readonly capture?: ResponseCapture | undefined;
}

/**
 * Captures the response of a request. `captureResponse` creates one; servers don't import it, so applications without an
 * extension don't bundle it.
 */
export interface ResponseCapture {
  /** Captures what is written to a Node response from now on. */
  onNode(response: ServerResponse): void;
  /** Captures a `Response`. Returns the one to send. */
  onFetch(response: Response, method: string): Promise<Response>;
  /** Reports that there is no response, because the handler threw or did not run. */
  without(missing: "failed" | "aborted", error?: unknown): void;
}

/** How a response is captured: what the handler, or the middleware after this one, has written. */
export interface CaptureOptions {
  /** The longest body that is captured, in bytes. */
  readonly maxBytes: number;
  /**
   * Called once with the response. Its end, or a short response as a whole, is sent when the promise settles, so bound
   * it in time. Not awaited if the body is missing. Errors are ignored.
   */
  complete(captured: CapturedResponse): MaybePromise<void>;
}

/** The response of a request. */
export interface CapturedResponse {
  /** The status; `undefined` if there is no response. */
  readonly status: number | undefined;
  /** Headers by lower-case name, with those that earlier middleware has set. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The body, empty for HEAD, 204 and 304; `undefined` if it is missing. */
  readonly body: Uint8Array | undefined;
  /**
   * Why the body is missing: it is longer than `maxBytes`, the handler failed, or the client disconnected and the handler
   * did not run, or did not end its response within 60 s.
   */
  readonly missing?: "too-long" | "failed" | "aborted";
  /** The error, if the handler threw one and the server passes it on. */
  readonly error?: unknown;
}

/** An extension has answered the request. */
export interface GateAnswer extends ExtensionPass {
  readonly rejection?: undefined;
  readonly answer: ResponseData;
  readonly failure?: undefined;
}

/** The limiter failed after an extension had let the request pass. */
export interface GateFailure extends ExtensionPass {
  readonly rejection?: undefined;
  readonly answer?: undefined;
  /** Pass its error to `handleError`. */
  readonly failure: { readonly error: unknown };
}

/** The extension among the options, if there is one. */
export function extensionOf<Args extends HandlerArgs>(options: object): GateExtension<Args> | undefined {
  return (options as { readonly [EXTENSION]?: GateExtension<Args> })[EXTENSION];
}

/** Calls the extension, then `next`, and adds what the extension returned to the result. */
export function enterExtension<Args extends HandlerArgs, Result extends ExtensionPass>(
  extension: GateExtension<Args>,
  request: ExtensionRequest<Args>,
  next: () => MaybePromise<Result | undefined>,
): MaybePromise<Result | typeof UNCOUNTED | GateAnswer | GateFailure | undefined> {
  return andThen(extension.enter(request), (entered): ReturnType<typeof enterExtension<Args, Result>> => {
    if (entered === undefined) return next();
    if ("status" in entered) return { answer: entered };
    const { set, capture } = entered;
    const failed = (error: unknown): GateFailure => ({ failure: { error }, set, capture });
    // Another extension may have added something to the result.
    const extend = (result: Result | undefined) => ({
      ...(result ?? UNCOUNTED),
      set: result?.set ? { ...result.set, ...set } : set,
      capture: capture ?? result?.capture,
    });
    try {
      const result = next();
      return isPromise(result) ? result.then(extend, failed) : extend(result);
    } catch (error) {
      return failed(error);
    }
  });
}

/** The request continues and is not counted. */
const UNCOUNTED = { pendingHeaders: undefined, delayMs: 0, onFinish: undefined, isHeld: false };

/** A request, read on demand. */
export class RequestView<Args extends HandlerArgs> implements ExtensionRequest<Args> {
  readonly args: Args;
  private readonly reader: RequestReader<Args>;

  constructor(args: Args, reader: RequestReader<Args>) {
    this.args = args;
    this.reader = reader;
  }

  get method(): string {
    return this.reader.method(this.args).toUpperCase();
  }

  get path(): string {
    return this.reader.path(this.args);
  }

  get extra(): unknown {
    return this.reader.extra?.(this.args);
  }

  get peer(): string | undefined {
    return this.reader.peer(this.args);
  }

  header(name: string): string | undefined {
    return this.reader.header(this.args, name);
  }

  body(maxBytes: number): Promise<RequestBody | undefined> {
    return this.reader.body(this.args, maxBytes);
  }
}
