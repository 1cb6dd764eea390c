/** Mounts and calls that look right: those of other handlers, and those of the articles that the package started from. */
import { type FastifyInstance, fastify } from "fastify";
import { Hono } from "hono";
import { memoryRateLimiter, memoryStore } from "sluice";
import { rateLimit } from "sluice/express";
import { rateLimitPlugin } from "sluice/fastify";
import { limitRoute } from "sluice/next";
import { createObserver, dashboard } from "sluice/observe";
import { describeRateLimiter } from "sluice/testing";
import { createGuard } from "sluice/ws";
import { rateLimit as limitMessages } from "sluice/ws-kit";
import { onTestFinished } from "vitest";
import { visit, visitExpress } from "./apps.ts";
import { type Row, see, warning, wrong } from "./row.ts";

/** A dashboard that stops with its test. */
function page(): ReturnType<typeof dashboard> {
  const board = dashboard(createObserver(), { authorize: () => true });
  onTestFinished(() => board.dispose());
  return board;
}

const mounted = (how: string): string =>
  `dashboard() returns a handler of Request and Response, and was called with other arguments. Mount it as ${how}.`;
const ON_NODE = mounted(
  'app.use("/_sluice", toNodeHandler(dashboard(observer, options))), with toNodeHandler of sluice/node',
);
const ON_FASTIFY = mounted(
  'a hook "onRequest" that calls reply.hijack() and page(request.raw, reply.raw), where page is toNodeHandler(dashboard(observer, options))',
);

/** Sends a request to an app of Fastify. Returns its status, and the first error that the error handler received. */
async function visitFastify(mount: (app: FastifyInstance) => unknown): Promise<object> {
  const errors: string[] = [];
  const app = fastify();
  onTestFinished(() => app.close());
  app.setErrorHandler((error: Error, _request, reply) => {
    errors.push(error.message);
    return reply.code(500).send();
  });
  mount(app);
  app.get("/", async () => "ok");
  const { statusCode: status } = await app.inject(
    app.hasRoute({ method: "GET", url: "/_sluice/*" }) ? "/_sluice/" : "/",
  );
  return { status, error: errors[0] };
}

const USE_A_LIMITER = "Pass a limiter that uses the store instead: limiter: createLimiter({ policy, store }).";
const NO_POLICY =
  "limiter needs getPolicy() besides consume(). Add a method that returns the policy, such as { capacity: 100 }.";
/** The interface of an article: no getPolicy. */
const bare = { consume: async () => ({ allowed: true, remaining: 1, retryAfterMs: null }) };

export const mountRows: readonly Row[] = [
  {
    number: 83,
    what: "the dashboard without an adapter",
    before: "D",
    grade: "A",
    cases: [
      {
        code: "app.use(dashboard(observer, options)) // Express",
        run: () => visitExpress(page()),
        returns: { statuses: [500], error: see("invalid-option", ON_NODE) },
      },
      {
        code: "createServer(dashboard(observer, options))",
        run: () => visit(page()),
        returns: { statuses: [500] },
        warns: warning("misuse", ON_NODE),
      },
      {
        code: 'app.all("/_sluice/*", dashboard(observer, options)) // Hono',
        async run() {
          const errors: string[] = [];
          const app = new Hono();
          app.all("/_sluice/*", wrong(page()));
          app.onError((error, context) => {
            errors.push(error.message);
            return context.text("", 500);
          });
          return { status: (await app.request("/_sluice/")).status, error: errors[0] };
        },
        returns: {
          status: 500,
          error: see("invalid-option", mounted('app.all("/_sluice/*", (context) => page(context.req.raw))')),
        },
      },
      {
        // The context of Koa, which is not installed here: integration/koa mounts the dashboard as the message says.
        code: "app.use(dashboard(observer, options)) // Koa",
        run: () => wrong(page())({ req: {}, res: {}, request: {}, response: {} }, async () => {}),
        throws: see(
          "invalid-option",
          mounted(
            "a middleware that sets context.respond = false and calls page(context.req, context.res), where page is toNodeHandler(dashboard(observer, options))",
          ),
        ),
      },
      {
        code: 'app.addHook("onRequest", dashboard(observer, options)) // Fastify',
        run: () => visitFastify((app) => app.addHook("onRequest", wrong(page()))),
        returns: { status: 500, error: see("invalid-option", ON_FASTIFY) },
      },
      {
        code: 'app.all("/_sluice/*", dashboard(observer, options)) // Fastify',
        run: () => visitFastify((app) => app.all("/_sluice/*", wrong(page()))),
        returns: { status: 500, error: see("invalid-option", ON_FASTIFY) },
      },
    ],
  },
  {
    number: 84,
    what: "the plugin of Fastify as a hook",
    before: "D",
    grade: "A",
    cases: [
      {
        code: 'app.addHook("onRequest", rateLimitPlugin)',
        run: () => visitFastify((app) => app.addHook("onRequest", wrong(rateLimitPlugin))),
        returns: {
          status: 500,
          error: see(
            "invalid-option",
            'rateLimitPlugin is a plugin, and was called as a hook. Use app.register(rateLimitPlugin, options), or app.addHook("onRequest", rateLimit(options)).',
          ),
        },
      },
    ],
  },
  {
    number: 85,
    what: "a route of Next.js without its handler",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "export const POST = limitRoute(options)(undefined)",
        run: () => limitRoute({ policy: "1/s", identity: "vercel" })(wrong(undefined)),
        throws: see(
          "invalid-option",
          'limitRoute from "sluice/next" was called without a handler. Use it as export const POST = limitRoute(options)(handler).',
        ),
      },
    ],
  },
  {
    number: 86,
    what: "a limiter and a key as two arguments",
    before: "D",
    grade: "A",
    cases: [
      {
        code: "rateLimit(limiter, keyFor)",
        run: () => wrong(rateLimit)(memoryRateLimiter("1/s"), () => "k"),
        throws: see(
          "invalid-option",
          "rateLimit takes one object with options, but received a limiter. Write rateLimit({ limiter, key }).",
        ),
      },
    ],
  },
  {
    number: 87,
    what: "a limiter without getPolicy",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ limiter: { consume } }) // of sluice/ws-kit",
        run: () => limitMessages({ limiter: wrong(bare) }),
        throws: see("invalid-limiter", NO_POLICY),
      },
      {
        code: "createGuard({ limits: { limiter: { consume } } })",
        run: () => createGuard(wrong({ limits: { limiter: bare } })),
        throws: see("invalid-limiter", NO_POLICY),
      },
    ],
  },
  {
    number: 88,
    what: "a store or a policy in sluice/ws-kit",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ store: memoryStore() })",
        run: () => limitMessages(wrong({ store: memoryStore() })),
        throws: see("unknown-option", `"store" is not an option of rateLimit. ${USE_A_LIMITER}`),
      },
      {
        code: 'rateLimit({ policy: "10/s" })',
        run: () => limitMessages(wrong({ policy: "10/s" })),
        throws: see(
          "unknown-option",
          '"policy" is not an option of rateLimit. Pass a limiter with this policy instead: limiter: memoryRateLimiter(policy).',
        ),
      },
    ],
  },
  {
    number: 89,
    what: "describeRateLimiter with a creator that ignores the policy",
    before: "D",
    grade: "A",
    cases: [
      {
        code: 'describeRateLimiter("Memory", () => memoryRateLimiter(testPolicy))',
        run: () =>
          describeRateLimiter("Memory", () => memoryRateLimiter("5/s burst 10"), {
            describe: wrong(() => {}),
            it: wrong(() => {}),
          }),
        throws: see(
          "invalid-limiter",
          'The limiter has the policy "5/s burst 10", but the suite asked for "1/s burst 1". Create it with the policy that create is called with: describeRateLimiter(name, (policy) => memoryRateLimiter(policy)).',
        ),
      },
    ],
  },
];
