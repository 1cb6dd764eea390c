/** `node:http2` servers without TLS, and an HTTP/1.1 proxy in front of them, because `fetch` sends HTTP/1.1. */
import { createServer as createHttp1, type RequestListener } from "node:http";
import { type ClientHttp2Session, connect, constants, createServer, type IncomingHttpHeaders } from "node:http2";
import type { AddressInfo, Server } from "node:net";
import type { RunningServer } from "sluice/testing";

const { NGHTTP2_CANCEL } = constants;
/** Connection headers of HTTP/1.1, which HTTP/2 forbids. */
const CONNECTION_HEADERS = ["connection", "keep-alive", "transfer-encoding", "host", "expect"];

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Starts a server whose handler has the types of `node:http`. */
export async function listenHttp2(listener: RequestListener): Promise<RunningServer & { session: ClientHttp2Session }> {
  // The types of the compatibility API are unrelated to those of `node:http`.
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

/** An HTTP/1.1 server that forwards each request as an HTTP/2 stream. */
export async function behindHttp1({ session, close }: Awaited<ReturnType<typeof listenHttp2>>): Promise<RunningServer> {
  const front = createHttp1((request, response) => {
    const headers = Object.entries(request.headers).filter(([name]) => !CONNECTION_HEADERS.includes(name));
    // Like browsers, ends the stream with the headers if there is no body.
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
    // Without backpressure: Node would not see a disconnect while it does not read the socket.
    request.on("data", (chunk) => stream.write(chunk)).on("end", () => stream.end());
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
