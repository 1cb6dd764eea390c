/** The contract of a middleware as a suite that every server runs, driven over real HTTP. */
import { clientOf } from "./middleware/client.ts";
import { countingCases } from "./middleware/counting-cases.ts";
import { failingCases } from "./middleware/failing-cases.ts";
import { type GuardedRoute, mount, type RouteKit } from "./middleware/guarded-route.ts";
import { identityCases } from "./middleware/identity-cases.ts";
import { tellingCases } from "./middleware/response-cases.ts";
import { type Runner, resolveRunner as runnerOf } from "./runner.ts";

/** A server that runs, with all routes. */
export interface RunningServer {
  /** Where it listens, such as `http://127.0.0.1:3000/`. */
  readonly url: string;
  close(): Promise<void>;
}

/** A server under test. */
export interface MiddlewareSubject {
  /** Starts the server. One in another process makes its routes by itself, with `guardedRoutes`. */
  start(): Promise<RunningServer>;
  /** The headers that make a request come from an address. Default: `X-Forwarded-For`. */
  as?(address: string): Record<string, string>;
  /** Titles of cases that can't be tried on this server, and why. */
  without?: Readonly<Record<string, string>>;
}

const middlewareCases = [...countingCases, ...tellingCases, ...identityCases, ...failingCases];

/** The routes that a server under test has to mount. */
export function guardedRoutes(kit: RouteKit): GuardedRoute[] {
  return mount(Object.assign({}, ...middlewareCases.map(({ routes }) => routes)), kit);
}

/** Certifies a middleware: starts its server once and tries every case on it. */
export function middlewareSuite(name: string, subject: MiddlewareSubject, runner: Partial<Runner> = {}): void {
  const { describe, it } = runnerOf(runner);
  const { without = {}, as = (address: string) => ({ "X-Forwarded-For": address }) } = subject;
  const unknown = Object.keys(without).find((title) => middlewareCases.every((one) => one.title !== title));
  if (unknown !== undefined) throw new TypeError(`There is no case "${unknown}".`);
  let server: RunningServer | undefined;
  const client = clientOf(() => server?.url ?? "", as);
  // What is left out is said in the title, so that nobody takes it for passed.
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
