/** `sluice/koa` in real apps of Koa 2 and 3. */
import { serverSuite } from "../server-suite.ts";
import { kit, startApp, versions } from "./app.ts";

for (const [name, koa] of versions) {
  serverSuite(name, { kit, start: (routes) => startApp(koa, routes) });
}
