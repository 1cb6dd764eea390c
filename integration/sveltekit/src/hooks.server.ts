/** Runs every route's hooks in `sequence`. */
import { type Handle, sequence } from "@sveltejs/kit/hooks";
import { loadRules } from "sluice/rules";
import { idempotent, rateLimit, type SvelteKitRateLimitOptions } from "sluice/sveltekit";
import { routeOf, routes } from "./routes.ts";

const hooks = new Map<unknown, Handle>(
  routes
    .filter(({ rateLimits }) => rateLimits.length > 0)
    .map((route) => {
      const limits = route.rateLimits.map((options) => rateLimit(options as SvelteKitRateLimitOptions));
      const idempotents = route.idempotency ? [idempotent(route.idempotency)] : [];
      return [
        route,
        sequence(...(route.isIdempotencyLast ? [...limits, ...idempotents] : [...idempotents, ...limits])),
      ];
    }),
);

/** Adds a name to the responses that pass it. */
const marked =
  (name: string): Handle =>
  async ({ event, resolve }) => {
    const response = await resolve(event);
    const order = response.headers.get("X-Order");
    response.headers.set("X-Order", order === null ? name : `${name}, ${order}`);
    return response;
  };

/** The limit is between two other hooks. */
const ordered = sequence(marked("before"), rateLimit({ policy: "3/h" }), marked("after"));

/** For the tests of rules. */
const { RULES } = process.env;
const byRules = RULES ? rateLimit({ rules: loadRules(JSON.parse(RULES), { facts: [] }) }) : undefined;

export const handle: Handle = (input) => {
  if (byRules) return byRules(input);
  if (input.event.url.pathname === "/order") return ordered(input);
  const hook = hooks.get(routeOf(input.event));
  return hook ? hook(input) : input.resolve(input.event);
};
