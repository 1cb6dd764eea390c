/** The middleware of Nuxt 3 and 4 in docs/middleware/h3.md. */
import { fromNodeMiddleware } from "h3";
import { tokenBucket } from "sluice";
import { rateLimit } from "sluice/express";

export default fromNodeMiddleware(rateLimit({ policy: tokenBucket("3/h", { name: "api" }) }));
