/** Runs every route's hooks in `sequence`. */
import { type Handle, sequence } from "@sveltejs/kit/hooks";
import { rateLimit, type SvelteKitRateLimitOptions } from "sluice/sveltekit";
import { routeOf, routes } from "./routes.ts";

const hooks = new Map<unknown, Handle>(
  routes
    .filter(({ rateLimits }) => rateLimits.length > 0)
    .map((route) => [
      route,
      sequence(...route.rateLimits.map((options) => rateLimit(options as SvelteKitRateLimitOptions))),
    ]),
);

export const handle: Handle = (input) => {
  const hook = hooks.get(routeOf(input.event));
  return hook ? hook(input) : input.resolve(input.event);
};
