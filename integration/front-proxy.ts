/** A reverse proxy in front of apps whose framework passes no socket address. It overwrites `X-Real-IP`, as nginx does. */
import { createServer, request as sendRequest } from "node:http";
import type { RunningServer } from "sluice/testing";
import { listen } from "../test/middleware/mount.ts";

/** The identity of an app behind the proxy. */
export const BEHIND_PROXY = { preset: "nginx", trustedProxies: 1 } as const;

/** Headers that make a request come from an IP address: the proxy believes them. */
export const asAddress = (address: string): Record<string, string> => ({ "X-Test-Address": address });

/** Starts the proxy in front of a server, and stops both. */
export async function withFrontProxy(app: RunningServer): Promise<RunningServer> {
  const { hostname, port } = new URL(app.url);
  const proxy = createServer((incoming, outgoing) => {
    const address = incoming.headers["x-test-address"] ?? incoming.socket.remoteAddress ?? "";
    const headers = { ...incoming.headers, "x-real-ip": address };
    const { url: path, method } = incoming;
    const upstream = sendRequest({ hostname, port, path, method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.rawHeaders as never);
      response.pipe(outgoing);
      response.once("error", () => outgoing.destroy());
    });
    upstream.once("error", () => outgoing.destroy());
    // Sends what is written at once, so that streams arrive as they are produced.
    outgoing.once("close", () => upstream.destroy());
    incoming.pipe(upstream);
  });
  const front = await listen(proxy.listeners("request")[0] as never);
  return {
    url: front.url,
    async close() {
      await front.close();
      await app.close();
    },
  };
}
