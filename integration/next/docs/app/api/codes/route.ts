/** The route handler of docs/middleware/next.md. */
import { slidingLog } from "sluice";
import { getRateLimit, limitRoute } from "sluice/next";
import { identity } from "../../../identity";

const limit = limitRoute({
  policy: slidingLog("1/15m", { name: "codes" }),
  identity,
  refundIf: "failed",
});

export const POST = limit(async (request) => {
  return Response.json({ remaining: getRateLimit(request)?.remaining }, { status: 202 });
});
