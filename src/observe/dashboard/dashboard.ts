/** The dashboard: one handler that serves a page and the data of an observer, for those whom `authorize` admits. */
import { optionError, SluiceError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import { observerPort } from "../../core/observer.ts";
import type { RuleSet } from "../../rules/rule-set-types.ts";
import type { Observer, ObserverState } from "../observer.ts";
import { type Authorize, authorizer, isForeign, requestLimit } from "./access.ts";
import { EventStreams } from "./event-streams.ts";
import { History } from "./history.ts";
import { hostCheck } from "./hosts.ts";
import { keyIn } from "./key-body.ts";
import { lookUp } from "./look-up.ts";
import { exchangedCookie } from "./loopback-token.ts";
import { ICON, renderPage } from "./page.ts";
import { SCRIPT } from "./page-script.ts";
import { STYLE } from "./page-style.ts";
import { reply, respond, withoutToken } from "./responses.ts";
import { snapshotOf } from "./snapshot.ts";
import { type Target, targetOf } from "./target.ts";
import { isRequest, rejectMount } from "./wrong-mount.ts";

/** Options of `dashboard`. */
export interface DashboardOptions {
  /**
   * Decides who may see the dashboard. Called for every request, also for those of scripts and data. Only `true` admits:
   * `false`, another value or an exception is a 403.
   */
  authorize: Authorize;
  /**
   * The names of the hosts that the dashboard answers for, as browsers send them in `Host`: `["ops.example.com"]`. With a
   * port, only for that port. Loopback names and IP addresses always work. Other hosts get a 421. Default: none.
   */
  hosts?: readonly string[];
  /** The rules in force, to show their patterns and modes. Default: names only. */
  rules?: RuleSet;
}

/** Serves the dashboard below any path. */
export interface Dashboard {
  /** Responds to a request for the page, its files or its data. */
  (request: Request): Promise<Response>;
  /** Stops the timer that samples the counters, and closes all connections. Later requests get a 503. */
  dispose(): void;
}

const SAMPLE_MS = 1000;
const WRONG_HOST =
  "The dashboard does not answer for this host. Add its name to the option hosts of dashboard(), unless it is not yours.";

/**
 * Serves the dashboard and its JSON. `authorize` is required. Mount it below a path of its own, with everything below that
 * path: `/_sluice` and `/_sluice/*`.
 */
export function dashboard(observer: Observer, options: DashboardOptions): Dashboard {
  const { state, authorize, rules } = parseOptions(observer, options);
  const history = new History(state);
  const streams = new EventStreams();
  const isAuthorized = authorizer(authorize);
  const isOwnHost = hostCheck(options.hosts);
  const limit = requestLimit();
  let isDisposed = false;

  const read = (): string => {
    history.sample();
    return JSON.stringify(snapshotOf(state, history, rules));
  };
  const timer = new Ticker(() => {
    if (streams.size > 0) streams.send(read());
    else history.sample();
  });

  const resources: Record<Target["name"], Resource> = {
    page: { methods: "GET, HEAD", respond: ({ prefix }) => reply(renderPage(prefix), "text/html") },
    "app.css": { methods: "GET, HEAD", respond: () => reply(STYLE, "text/css") },
    "app.js": { methods: "GET, HEAD", respond: () => reply(SCRIPT, "text/javascript") },
    "icon.svg": { methods: "GET, HEAD", respond: () => reply(ICON, "image/svg+xml") },
    data: { methods: "GET, HEAD", respond: () => reply(read(), "application/json") },
    events: {
      methods: "GET",
      respond() {
        const stream = streams.open(read);
        return stream
          ? reply(stream, "text/event-stream")
          : respond(503, "Too many connections", { "Retry-After": "5" });
      },
    },
    key: {
      methods: "POST",
      async respond(_target, request) {
        const key = await keyIn(request);
        if (typeof key === "number") return respond(key, key === 413 ? "Content Too Large" : "Bad Request");
        return reply(JSON.stringify(await lookUp(state, key.text, rules)), "application/json");
      },
    },
  };

  const handle = async (request: Request, ...others: readonly unknown[]): Promise<Response> => {
    if (!isRequest(request)) return rejectMount(request, others[0], others[1]) as never;
    if (!isOwnHost(request)) return respond(421, WRONG_HOST);
    const target = targetOf(request);
    if (isForeign(request, target?.name === "page") || !(await isAuthorized(request))) return respond(403, "Forbidden");
    if (isDisposed) return respond(503, "The dashboard has been disposed of");
    timer.start();
    const waitMs = limit();
    if (waitMs > 0) return respond(429, "Too Many Requests", { "Retry-After": String(Math.ceil(waitMs / 1000)) });
    if (!target) return respond(404, "Not Found");
    const resource = resources[target.name];
    if (!resource.methods.split(", ").includes(request.method)) {
      return respond(405, "Method Not Allowed", { Allow: resource.methods });
    }
    const cookie = exchangedCookie(request);
    if (cookie !== undefined && target.name === "page") return withoutToken(request, target, cookie);
    return resource.respond(target, request);
  };
  const dispose = (): void => {
    isDisposed = true;
    timer.stop();
    streams.closeAll();
  };
  return Object.assign(handle, { dispose });
}

/** Calls a function every second. */
class Ticker {
  private readonly tick: () => void;
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor(tick: () => void) {
    this.tick = tick;
    this.start();
  }

  start(): void {
    if (this.timer !== undefined) return;
    try {
      this.timer = setInterval(this.tick, SAMPLE_MS);
      // A dashboard must not keep a process running. Timers of some runtimes are numbers.
      (this.timer as { unref?(): void }).unref?.();
    } catch {
      // Workers have no timers before their first request.
    }
  }

  stop(): void {
    clearInterval(this.timer);
  }
}

/** What is served at one path. */
interface Resource {
  /** The methods, as in `Allow`. */
  readonly methods: string;
  respond(target: Target, request: Request): Response | Promise<Response>;
}

function parseOptions(
  observer: Observer,
  options: DashboardOptions | undefined,
): DashboardOptions & { readonly state: ObserverState } {
  // The class is not compared: the observer may come from the other build of the package.
  const state = observerPort(observer ?? (null as never)) as ObserverState;
  if (options !== undefined) checkOptions("dashboard", options, ["authorize", "hosts", "rules"]);
  const { authorize, rules } = options ?? {};
  if (authorize === undefined) {
    const expected = "a function that decides who may see the dashboard";
    throw new SluiceError("invalid-option", `authorize: missing; pass ${expected}.`, { option: "authorize", expected });
  }
  if (typeof authorize !== "function") throw optionError("invalid-option", "authorize", "a function", authorize);
  if (rules !== undefined && !Array.isArray((rules as Partial<RuleSet> | null)?.data?.rules)) {
    throw optionError("invalid-option", "rules", "made by defineRules() of sluice/rules", rules);
  }
  return { state, authorize, ...(rules && { rules }) };
}
