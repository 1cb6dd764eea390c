/** `rateLimit` in routers of tRPC, type-checked only. */
import { createTRPCClient, httpLink, TRPCClientError } from "@trpc/client";
import { initTRPC } from "@trpc/server";
import { createLimiter, tokenBucket } from "sluice";
import { defineRules } from "sluice/rules";
import { type RateLimitContext, rateLimit, rateLimitErrorFormatter } from "sluice/trpc";

interface Context {
  readonly user: { readonly id: string; readonly plan: "free" | "paid" };
}

const t = initTRPC.context<Context>().create({ errorFormatter: rateLimitErrorFormatter });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

const limited = t.procedure.use(rateLimit({ policy: "5/m", key: ({ ctx }) => ctx.user.id }));
const reusable = t.middleware(rateLimit({ limiter: ({ ctx }) => plans[ctx.user.plan], key: ({ ctx }) => ctx.user.id }));
const parsed = t.procedure
  .input((value: unknown) => value as { size: number })
  .use(rateLimit<Context>({ policy: "5/m", cost: ({ input }) => (input as { size: number }).size }));

const router = t.router({
  // The context keeps its type, and has the decision.
  whoAmI: limited.query(({ ctx }): string => `${ctx.user.id} ${ctx.rateLimit?.remaining}`),
  plan: t.procedure.use(reusable).mutation(({ ctx }) => ctx.user.plan),
  size: parsed.query(({ input, ctx }) => input.size + (ctx.rateLimit?.limit ?? 0)),
  // Context of another middleware is kept, and can be used by callbacks.
  both: t.procedure
    .use(({ next }) => next({ ctx: { tenant: "one" } }))
    .use(rateLimit({ policy: "5/m", key: ({ ctx }: { ctx: { tenant: string } }) => ctx.tenant }))
    .query(({ ctx }) => ({ tenant: ctx.tenant, user: ctx.user.id, decision: ctx.rateLimit })),
});

// Inputs, outputs and the data of errors reach the client.
const client = createTRPCClient<typeof router>({ links: [httpLink({ url: "" })] });
export async function call(): Promise<string | number | null | undefined> {
  try {
    return await client.whoAmI.query();
  } catch (error) {
    if (error instanceof TRPCClientError) {
      const { data } = error as TRPCClientError<typeof router>;
      return data?.retryAfterMs ?? data?.policy;
    }
    throw error;
  }
}

// A formatter of the app's own, around that of sluice.
export const own = initTRPC.create({
  errorFormatter(options) {
    const shape = rateLimitErrorFormatter(options);
    return { ...shape, data: { ...shape.data, requestId: "1" } };
  },
});

const rules = defineRules({
  version: 1,
  rules: [{ name: "api", match: "/post.create", limits: { tenant: "5/m", global: "9/m" } }],
  fallback: "unlimited",
});
t.procedure.use(rateLimit({ rules, facts: { tenant: () => "one" } }));
export const contextOf = ({ rateLimit }: RateLimitContext): number | undefined => rateLimit?.remaining;

// @ts-expect-error the context has no such member
t.procedure.use(rateLimit<Context>({ policy: "5/m", key: ({ ctx }) => ctx.user.idd }));
// @ts-expect-error the context has no such member, as inferred
t.procedure.use(rateLimit({ policy: "5/m", key: ({ ctx }) => ctx.session.id }));
// @ts-expect-error the context has no such member
t.procedure.use(rateLimit({ policy: "5/m", key: ({ ctx }: { ctx: { session: string } }) => ctx.session }));
// @ts-expect-error a procedure of another type
rateLimit<Context>({ policy: "5/m", skip: ({ type }) => type === "call" });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error procedures have no CORS preflights
rateLimit({ policy: "5/m", preflight: "charge" });
// @ts-expect-error onLimited returns a message or an error
rateLimit({ policy: "5/m", onLimited: () => 429 });
// @ts-expect-error options are required
rateLimit();
