/** The middleware of Nitro in docs/middleware/h3.md. */
import { tokenBucket } from "sluice";
import { rateLimit } from "sluice/h3";

export default rateLimit({ policy: tokenBucket("3/h", { name: "api" }) });
