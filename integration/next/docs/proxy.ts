/** The proxy of docs/middleware/next.md. */
import { tokenBucket } from "sluice";
import { rateLimit } from "sluice/next";

export const proxy = rateLimit({
  policy: tokenBucket("5/h", { name: "site" }),
  // The reverse proxy in front overwrites X-Real-IP. On Vercel: "vercel".
  identity: {
    preset: "nginx",
    trustedProxies: 1,
    // `next dev` has no proxy in front: at localhost, all requests share one bucket.
    unidentified: process.env.NODE_ENV === "development" ? "share" : "refuse",
  },
});

// Pages and API routes: neither files of the build nor those of public/.
export const config = { matcher: ["/((?!_next/|.*\\..*).*)"] };
