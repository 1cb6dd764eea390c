import { type MiddlewareFunction, Outlet, Scripts } from "react-router";
import { rateLimit } from "sluice/react-router";
import { loadRules } from "sluice/rules";

/** For the tests of rules. */
const { RULES } = process.env;
export const middleware: MiddlewareFunction<Response>[] = RULES
  ? [
      rateLimit({
        rules: loadRules(JSON.parse(RULES), { facts: [] }),
        identity: { preset: "nginx", trustedProxies: 1, unidentified: "share" },
      }),
    ]
  : [];

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
