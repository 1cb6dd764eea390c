/** The fetch server of the current runtime: Bun.serve, Deno.serve or @hono/node-server. */
import { serve } from "@hono/node-server";
import type { RunningServer } from "sluice/testing";

/** A handler as every runtime accepts it. */
type Fetch = (request: Request, ...rest: unknown[]) => Response | Promise<Response>;

interface Runtime {
  readonly Bun?: {
    serve(options: { port: number; hostname: string; fetch: Fetch }): {
      port: number;
      stop(now: boolean): Promise<void>;
    };
  };
  readonly Deno?: {
    serve(
      options: { port: number; hostname: string; onListen(): void },
      handler: Fetch,
    ): { addr: { port: number }; shutdown(): Promise<void> };
  };
}

const { Bun, Deno } = globalThis as Runtime;

/** Starts a handler on a free port. */
export async function serveFetch(fetch: Fetch): Promise<RunningServer> {
  const hostname = "127.0.0.1";
  if (Bun) {
    const server = Bun.serve({ port: 0, hostname, fetch });
    return { url: `http://${hostname}:${server.port}/`, close: () => server.stop(true) };
  }
  if (Deno) {
    const server = Deno.serve({ port: 0, hostname, onListen() {} }, fetch);
    return { url: `http://${hostname}:${server.addr.port}/`, close: () => server.shutdown() };
  }
  return new Promise((resolve) => {
    const server = serve({ port: 0, hostname, fetch }, ({ port }) => {
      resolve({
        url: `http://${hostname}:${port}/`,
        close: () => new Promise((done) => void server.close(() => done())),
      });
    });
  });
}

/** The name of the server. */
export const server: string = Bun ? "Bun.serve" : Deno ? "Deno.serve" : "@hono/node-server";
