/** The proxy of docs/middleware/next.md. */
import { tokenBucket } from "sluice";
import { rateLimit } from "sluice/next";
import { identity } from "./identity";

export const proxy = rateLimit({
  policy: tokenBucket("5/h", { name: "site" }),
  identity,
});

// Pages and API routes: neither files of the build nor those of public/.
export const config = { matcher: ["/((?!_next/|.*\\..*).*)"] };
