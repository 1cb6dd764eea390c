/** The hooks of docs/middleware/sveltekit.md. */
import { sequence } from "@sveltejs/kit/hooks";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/sveltekit";

// All clients, per IP address. Calls of the app's own routes in `load` are not counted again.
const limit = rateLimit({
  policy: tokenBucket("5/h", { name: "site" }),
  // Not `url`: for remote functions, SvelteKit takes its path from a header of the client.
  skip: ({ request, isSubRequest }) => isSubRequest || new URL(request.url).pathname === "/health",
});

// A stricter limit for one path.
const limitCodes = rateLimit({ policy: slidingLog("1/15m", { name: "codes" }) });

export const handle = sequence(limit, (input) =>
  input.event.url.pathname === "/codes" ? limitCodes(input) : input.resolve(input.event),
);
