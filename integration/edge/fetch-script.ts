/** `sluice/fetch` at the edge. */
import { fetchHandler, fetchKit } from "../../test/middleware/mount.ts";
import { routesAtEdge } from "./routes.ts";

export default routesAtEdge(fetchKit, fetchHandler);
