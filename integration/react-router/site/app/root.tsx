/** The root of docs/middleware/react-router.md. */
import { Outlet, Scripts } from "react-router";
import { tokenBucket } from "sluice";
import { rateLimit } from "sluice/react-router";

// All routes, before their loaders and actions. The reverse proxy in front overwrites X-Real-IP.
export const middleware = [
  rateLimit({
    policy: tokenBucket("5/h", { name: "app" }),
    identity: { preset: "nginx", trustedProxies: 1 },
  }),
];

export default function Root() {
  return (
    <html lang="en">
      <body>
        <Outlet />
        <Scripts />
      </body>
    </html>
  );
}
