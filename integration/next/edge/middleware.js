import { rateLimit } from "sluice/next";
import { options, report } from "../site/limits.js";

export const middleware = rateLimit(options, report);

// Pages and API routes: neither files of the build nor those of public/.
export const config = { matcher: ["/((?!_next/|.*\\..*).*)"] };
