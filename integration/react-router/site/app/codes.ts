/** A route with a limit of its own. */
import { slidingLog } from "sluice";
import { rateLimit } from "sluice/react-router";

export const middleware = [
  rateLimit({
    policy: slidingLog("1/15m", { name: "codes" }),
    identity: { preset: "nginx", trustedProxies: 1 },
  }),
];

export async function action() {
  return Response.json({ sent: true }, { status: 202 });
}
