import { rateLimit } from "sluice/next";
import { options, report } from "./limits.js";

export const proxy = rateLimit(options, report);

// Pages and API routes: neither files of the build nor those of public/.
export const config = { matcher: ["/((?!_next/|.*\\..*).*)"] };
