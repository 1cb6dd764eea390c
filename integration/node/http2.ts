/** `node:http2` without TLS: servers through its compatibility API, and who speaks HTTP/1.1 to them for `fetch`. */
import { createServer as createHttp1, type RequestListener } from "node:http";
import { type ClientHttp2Session, connect, constants, createServer, type IncomingHttpHeaders } from "node:http2";
import type { AddressInfo, Server } from "node:net";
import type { RunningServer } from "sluice/testing";

const { NGHTTP2_CANCEL } = constants;
/** They belong to one connection of HTTP/1.1, and HTTP/2 refuses them. */
const OF_CONNECTIONS = ["connection", "keep-alive", "transfer-encoding", "host", "expect"];

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Starts a server whose handler has the shapes of `node:http`. */
export async function listenHttp2(listener: RequestListener): Promise<RunningServer & { session: ClientHttp2Session }> {
  // Requests and responses of the compatibility API have no types in common with those of `node:http`.
  const server = createServer(listener as never);
  const url = await listening(server);
  const session = connect(url);
  return {
    url,
    session,
    async close() {
      await new Promise<void>((resolve) => session.close(resolve));
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}

/** The same server for clients of HTTP/1.1: each request becomes a stream. */
export async function behindHttp1({ session, close }: Awaited<ReturnType<typeof listenHttp2>>): Promise<RunningServer> {
  const front = createHttp1((request, response) => {
    const headers = Object.entries(request.headers).filter(([name]) => !OF_CONNECTIONS.includes(name));
    // As browsers do it: a request without a body ends with its headers.
    const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
    const stream = session.request(
      { ...Object.fromEntries(headers), ":method": request.method, ":path": request.url },
      { endStream: encoding === undefined && length === "0" },
    );
    stream.once("response", ({ ":status": status = 502, ...headers }: IncomingHttpHeaders & { ":status"?: number }) => {
      response.writeHead(status, headers);
      stream.pipe(response);
    });
    stream.on("error", () => response.destroy());
    response.once("close", () => response.writableFinished || stream.close(NGHTTP2_CANCEL));
    request.pipe(stream);
  });
  const url = await listening(front);
  return {
    url,
    async close() {
      await new Promise<void>((resolve) => {
        front.close(() => resolve());
        front.closeAllConnections();
      });
      await close();
    },
  };
}
