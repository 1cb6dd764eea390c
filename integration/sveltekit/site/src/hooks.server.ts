/** The hooks of docs/middleware/sveltekit.md. */
import { sequence } from "@sveltejs/kit/hooks";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/sveltekit";

// All clients, per IP address. Calls of the app's own routes in `load` are not counted again.
const limit = rateLimit({
  policy: tokenBucket("5/h", { name: "site" }),
  skip: ({ url, isSubRequest }) => isSubRequest || url.pathname === "/health",
});

// A path with a limit of its own.
const limitCodes = rateLimit({ policy: slidingLog("1/15m", { name: "codes" }) });

export const handle = sequence(limit, (input) =>
  input.event.url.pathname === "/codes" ? limitCodes(input) : input.resolve(input.event),
);
