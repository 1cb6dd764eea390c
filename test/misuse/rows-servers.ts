/** Mistakes in how a middleware is mounted, and servers behind a proxy. */
import { rateLimit as limitExpress } from "sluice/express";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";
import { rateLimit as limitNode } from "sluice/node";
import { visit, visitExpress, visitHono } from "./apps.ts";
import { type Row, see, warning } from "./row.ts";

const options = { policy: "9/m" } as const;
const called = (imported: string, caller: string, right: string, use: string) =>
  `rateLimit from "sluice/${imported}" was called by ${caller}. Import rateLimit from "sluice/${right}" and use it as ${use}.`;
const byExpress = (imported: string) => called(imported, "Express", "express", "app.use(rateLimit(options))");
const NO_ADDRESS =
  'The request has no IP address to identify its client by. Set identity to the platform or the proxies in front, or to { unidentified: "share" }.';

export const serverRows: readonly Row[] = [
  {
    number: 41,
    what: "rateLimit of sluice/fetch in Express",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "app.use(rateLimit(options)) // of sluice/fetch",
        run: () => visitExpress(limitFetch(options)),
        returns: { statuses: [500], error: see("invalid-option", byExpress("fetch")) },
      },
    ],
  },
  {
    number: 42,
    what: "rateLimit of sluice/express in Hono, and the reverse",
    before: "D",
    grade: "A",
    cases: [
      {
        code: "app.use(rateLimit(options)) // of sluice/express, in Hono",
        run: () => visitHono(limitExpress(options)),
        returns: {
          statuses: [500],
          error: see("invalid-option", called("express", "Hono", "hono", "app.use(rateLimit(options))")),
        },
      },
      {
        code: "app.use(rateLimit(options)) // of sluice/hono, in Express",
        run: () => visitExpress(limitHono(options)),
        returns: { statuses: [500], error: see("invalid-option", byExpress("hono")) },
      },
    ],
  },
  {
    number: 43,
    what: "createServer(rateLimit(options)) without a handler",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "createServer(rateLimit(options)) // of sluice/node",
        run: () => visit(limitNode(options), 3),
        returns: { statuses: [500, 500, 500] },
        warns: warning(
          "misuse",
          'rateLimit from "sluice/node" was called without a handler. Use it as createServer(rateLimit(options)(handler)).',
        ),
      },
      {
        code: "createServer(rateLimit(options)) // of sluice/fetch",
        run: () => visit(limitFetch(options), 3),
        returns: { statuses: [500, 500, 500] },
        warns: warning("misuse", called("fetch", "node:http", "node", "createServer(rateLimit(options)(handler))")),
      },
      {
        code: 'import { createServer } from "node:http";\nimport { rateLimit } from "sluice/node";\ncreateServer(rateLimit({ policy: "1/s" }));',
        diagnostic: "error TS2769: No overload matches this call.",
      },
    ],
  },
  {
    number: 44,
    what: "a route handler on Node, which has no address of the client",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "export const GET = rateLimit(options)(handler) // of sluice/fetch",
        async run() {
          const { status } = await limitFetch(options)(() => new Response("handled"))(new Request("http://localhost/"));
          return { statuses: [status] };
        },
        returns: { statuses: [500] },
        warns: warning(
          "request_failed",
          `A request could not be checked: SluiceError: ${NO_ADDRESS} Set onError to receive every such error.`,
        ),
      },
    ],
  },
  {
    number: 45,
    what: "Hono's app.request() without an address",
    before: "A-",
    grade: "A",
    cases: [
      {
        code: 'app.request("/")',
        run: () => visitHono(limitHono(options)),
        returns: { statuses: [500], error: see("unidentified", NO_ADDRESS) },
      },
    ],
  },
  {
    number: 49,
    what: "a proxy that only Express's trust proxy names",
    before: "F",
    grade: "A",
    cases: [
      {
        code: 'app.set("trust proxy", 1); app.use(rateLimit(options))',
        run: () => visitExpress(limitExpress(options), 3, { "X-Forwarded-For": "203.0.113.7" }),
        returns: { statuses: [200, 200, 200] },
        warns: warning(
          "untrusted_proxy",
          'Requests come through a proxy that identity does not name, so all of its clients share one bucket. Set identity: { trustedProxies: ["127.0.0.1"] }, or identity: "cloudflare" or another platform.',
        ),
      },
    ],
  },
];
