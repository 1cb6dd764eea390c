/** `sluice/h3` in a real app of h3 2, served on Node. */
import { toNodeHandler } from "h3/node";
import { listen } from "../../test/middleware/mount.ts";
import { serverSuite } from "../server-suite.ts";
import { h3App, kit } from "./app.ts";

serverSuite("h3 2", {
  kit,
  start: (routes) => listen(toNodeHandler(h3App(routes)) as never),
  without: {
    "sets a clearance on the response to a handler that throws":
      "h3 builds the response to an error after all middleware",
  },
});
