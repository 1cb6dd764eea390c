/** The router of docs/middleware/trpc.md. */
import { initTRPC } from "@trpc/server";
import { type CreateHTTPContextOptions, createHTTPServer } from "@trpc/server/adapters/standalone";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit, rateLimitErrorFormatter } from "sluice/trpc";

const createContext = ({ req, res }: CreateHTTPContextOptions) => ({
  req,
  res,
  user: req.headers["x-user"] ?? "anonymous",
});
type Context = Awaited<ReturnType<typeof createContext>>;

const t = initTRPC.context<Context>().create({ errorFormatter: rateLimitErrorFormatter });

// Every procedure, per IP address.
const procedure = t.procedure.use(rateLimit({ policy: tokenBucket("10/h", { name: "api" }) }));
// Some procedures, in addition, per user.
const sending = procedure.use(
  rateLimit({ policy: slidingLog("1/15m", { name: "codes" }), key: ({ ctx }) => `user:${ctx.user}` }),
);

export const appRouter = t.router({
  hello: procedure.query(({ ctx }) => ({ text: "hello", remaining: ctx.rateLimit?.remaining })),
  codes: t.router({ send: sending.mutation(() => "sent") }),
});
export type AppRouter = typeof appRouter;

export const server = createHTTPServer({ router: appRouter, createContext });
