/** A router whose procedures have one limit. */
import { TRPCError } from "@trpc/server";
import { rateLimit, type TrpcRateLimitOptions } from "sluice/trpc";
import { type Context, t } from "./adapters.ts";

export const slow = (capacity: number, name = "api") => ({ capacity, tokensPerSecond: `${capacity}/d` as const, name });
export const byUser = ({ ctx }: { ctx: Context }) => ctx.user;

/** A router whose procedures have one limit. */
export function routerWith(options: TrpcRateLimitOptions<Context>, calls: unknown[] = []) {
  const limited = t.procedure.use(rateLimit<Context, string>(options));
  const echo = limited.input((value) => value as number);
  return t.router({
    echo: echo.query(({ input, ctx }) => {
      calls.push(input);
      return { input, remaining: ctx.rateLimit?.remaining, user: ctx.user };
    }),
    post: t.router({ create: limited.mutation(() => "created") }),
    fails: limited.query(() => {
      throw new TRPCError({ code: "NOT_FOUND", message: "on purpose" });
    }),
  });
}
