/** With PROXIED, limits the routes of the suite before Next.js finds their handlers. */
import { NextResponse } from "next/server";
import { rateLimit } from "sluice/next";
import { loadRules } from "sluice/rules";
import { routeOf, routes } from "./routes.js";

const limits = new Map(process.env.PROXIED ? routes.flatMap((route) => limitsOf(route)) : []);

/** The limits of a route; none if a proxy refuses them, because they need the end of the response. */
function limitsOf(route) {
  try {
    const proxy = route.rateLimits.reduceRight(
      (next, options) => rateLimit(options, next),
      () => NextResponse.next(),
    );
    return [[route, proxy]];
  } catch (error) {
    if (error.code === "unsupported") return [];
    throw error;
  }
}

/** For the tests of rules. */
const byRules = process.env.RULES
  ? rateLimit({
      rules: loadRules(JSON.parse(process.env.RULES), { facts: [] }),
      identity: { preset: "nginx", trustedProxies: 1, unidentified: "share" },
    })
  : undefined;

export function proxy(request) {
  if (byRules) return byRules(request);
  return limits.get(routeOf(request))?.(request) ?? NextResponse.next();
}
