/** The whole suite through a real nginx. */
import type { GuardedRoute, RunningServer } from "sluice/testing";
import { listen, nodeKit, nodeListener } from "../../test/middleware/mount.ts";
import { startNginx } from "../../test/servers/nginx.js";
import { serverSuite } from "../server-suite.ts";
import { type Front, fronts } from "./fronts.ts";

const start =
  (front: Front) =>
  async (routes: readonly GuardedRoute[]): Promise<RunningServer> => {
    const app = await listen(nodeListener(routes));
    const nginx = await startNginx({ ...front.nginx, to: Number(new URL(app.url).port) });
    return {
      url: nginx.url,
      async close() {
        await nginx.stop();
        await app.close();
      },
    };
  };

const BUFFERED = "nginx sends a request on when it has the whole body";
const without = {
  "releases the slot of a client that disconnects while nobody reads its request": BUFFERED,
  "releases the slot of such a client also if its response has begun": BUFFERED,
};

/** The suite connects from 127.0.0.1, which is trusted like nginx, so its headers count like those of another proxy. */
function suite(title: string, as: (address: string) => Record<string, string>): void {
  const front = fronts[title] as Front;
  const [identity] = front.identities;
  const kit = { ...nodeKit, ...(identity && { identity }) };
  serverSuite(`nginx, ${title}`, { kit, start: start(front), as, without });
}

suite("X-Forwarded-For", (address) => ({ "X-Forwarded-For": address }));
suite("Forwarded", (address) => ({
  Forwarded: `for=${address.includes(":") ? `"[${address}]"` : address};proto=https`,
}));
