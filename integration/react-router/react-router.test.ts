/** `sluice/react-router` in a built app of React Router 8 in framework mode. */
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { FETCH_WITHOUT, NODE_REQUEST_WITHOUT } from "../../test/middleware/mount.ts";
import { build, type Environment, installPacked, node24, startServer } from "../built-app.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";
import { ruleSpellings } from "../rule-spellings.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(async () => {
  installPacked(here);
  await build(node24, ["node_modules/@react-router/dev/bin.cjs", "build"], here);
});

const serve = (env: Environment = {}) =>
  startServer(node24, ["node_modules/@react-router/serve/bin.cjs", "build/server/index.js"], here, env);
const start = async () => withFrontProxy(await serve());

middlewareSuite(
  "React Router 8, memory",
  {
    start,
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

describe("React Router 8", () => {
  it("runs neither a loader nor an action for a request that is rejected (seed 001)", async () => {
    const { url, close } = await start();
    onTestFinished(close);
    const login = async () => (await fetch(new URL("/rules/login", url), { method: "POST" })).status;
    expect([await login(), await login(), await login()]).toEqual([200, 429, 429]);
    const logs = (await (await fetch(new URL("/seen", url))).json()) as { rules: { handled: number } };
    expect(logs.rules.handled).toBe(1);
  });
});

ruleSpellings("React Router 8", ({ rules }) => serve({ RULES: JSON.stringify(rules.data) }));
