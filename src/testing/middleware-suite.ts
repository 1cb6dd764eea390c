/** The contract of a middleware as a suite that runs on every server, over real HTTP. */
import { abuseCases } from "./middleware/abuse-cases.ts";
import { captureCases } from "./middleware/capture-cases.ts";
import { clearanceCases } from "./middleware/clearance-cases.ts";
import { clientOf } from "./middleware/client.ts";
import { countingCases } from "./middleware/counting-cases.ts";
import { disconnectCases } from "./middleware/disconnect-cases.ts";
import { failureCases } from "./middleware/failure-cases.ts";
import { type GuardedRoute, mount, type RouteKit } from "./middleware/guarded-route.ts";
import { holdCases } from "./middleware/hold-cases.ts";
import { idempotencyCases } from "./middleware/idempotency-cases.ts";
import { identityCases } from "./middleware/identity-cases.ts";
import { limitsCases } from "./middleware/limits-cases.ts";
import { observerCases } from "./middleware/observer-cases.ts";
import { preflightCases } from "./middleware/preflight-cases.ts";
import { refundCases } from "./middleware/refund-cases.ts";
import { responseCases } from "./middleware/response-cases.ts";
import { rulesCases } from "./middleware/rules-cases.ts";
import { storedResponseCases } from "./middleware/stored-response-cases.ts";
import { type Runner, resolveRunner } from "./runner.ts";

/** A server that is running, with all routes. */
export interface RunningServer {
  /** The URL that it listens on, such as `http://127.0.0.1:3000/`. */
  readonly url: string;
  /** Stops the server. */
  close(): Promise<void>;
}

/** A server under test. */
export interface MiddlewareSubject {
  /** Starts the server with the routes of `guardedRoutes`. It may run in another process. */
  start(): Promise<RunningServer>;
  /** Returns headers that make a request come from an IP address. Default: `X-Forwarded-For`. */
  as?(address: string): Record<string, string>;
  /** Titles of cases that can't run on this server, each with the reason. Default: none. */
  without?: Readonly<Record<string, string>>;
}

const middlewareCases = [
  ...countingCases,
  ...preflightCases,
  ...refundCases,
  ...holdCases,
  ...disconnectCases,
  ...limitsCases,
  ...responseCases,
  ...identityCases,
  ...failureCases,
  ...rulesCases,
  ...abuseCases,
  ...clearanceCases,
  ...captureCases,
  ...idempotencyCases,
  ...storedResponseCases,
  ...observerCases,
];

/** Creates the routes that a server under test has to mount. */
export function guardedRoutes(kit: RouteKit): GuardedRoute[] {
  return mount(Object.assign({}, ...middlewareCases.map(({ routes }) => routes)), kit);
}

/** Certifies a middleware: starts its server once, and runs every case on it. */
export function middlewareSuite(name: string, subject: MiddlewareSubject, runner: Partial<Runner> = {}): void {
  const { describe, it } = resolveRunner(runner);
  const { without = {}, as = (address: string) => ({ "X-Forwarded-For": address }) } = subject;
  const unknown = Object.keys(without).find((title) => middlewareCases.every((one) => one.title !== title));
  if (unknown !== undefined) throw new TypeError(`The suite has no case "${unknown}".`);
  let server: RunningServer | undefined;
  const client = clientOf(() => server?.url ?? "", as);
  // The title lists the cases that are left out, so a report does not count them as passed.
  const left = Object.entries(without).map(([title, reason]) => `; left out: "${title}", because ${reason}`);
  describe(`rateLimit: ${name}${left.join("")}`, () => {
    it("starts", async () => {
      server = await subject.start();
    });
    for (const { title, drive } of middlewareCases) {
      if (without[title] === undefined) it(title, () => drive(client));
    }
    it("stops", async () => {
      await server?.close();
    });
  });
}
