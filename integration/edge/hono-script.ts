/** `sluice/hono` at the edge. */
import { honoApp, kit } from "../hono/app.ts";
import { routesAtEdge } from "./routes.ts";

export default routesAtEdge(kit, (routes) => honoApp(routes).fetch);
