/** The server of Remix 2 in docs/middleware/react-router.md. */
import { createRequestHandler, type ServerBuild } from "@remix-run/node";
import { getRateLimit, rateLimit } from "sluice/fetch";

const limit = rateLimit({ policy: "2/h" });

export function createServer(build: ServerBuild) {
  const handle = createRequestHandler(build, "production");
  // Loaders get a copy of the request, so the decision is passed in the load context.
  return limit((request: Request, _connection: unknown) => handle(request, { rateLimit: getRateLimit(request) }));
}
