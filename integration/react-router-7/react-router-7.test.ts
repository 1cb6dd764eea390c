/** `sluice/react-router` in a built app of React Router 7, which is that of React Router 8. */
import { cpSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, it } from "vitest";
import { FETCH_WITHOUT, NODE_REQUEST_WITHOUT } from "../../test/middleware/mount.ts";
import { build, installPacked, node24, startServer } from "../built-app.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(async () => {
  cpSync(fileURLToPath(new URL("../react-router/app", import.meta.url)), `${here}app`, { recursive: true });
  installPacked(here);
  await build(node24, ["node_modules/@react-router/dev/bin.js", "build"], here);
});

middlewareSuite(
  "React Router 7, memory",
  {
    start: async () => {
      const args = ["node_modules/@react-router/serve/bin.js", "build/server/index.js"];
      return withFrontProxy(await startServer(node24, args, here));
    },
    as: asAddress,
    without: {
      ...FETCH_WITHOUT,
      ...NODE_REQUEST_WITHOUT,
      "releases the slots of pipelined requests whose client disconnects":
        "React Router ends an aborted request before its loader, so its slot ends with its lease",
      "releases a concurrent request when its client disconnects":
        "React Router ends an aborted request before its loader, so its slot ends with its lease",
      "keeps the slot of a client that has disconnected until its handler ends":
        "React Router ends an aborted request before its loader, so its slot ends with its lease",
      "stores the response to a client that has disconnected, for its retry":
        "React Router replaces the result of a request that was aborted by an error",
    },
  },
  { describe, it },
);
