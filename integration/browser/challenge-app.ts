/** A server whose pages need a clearance. It calls the handler of a challenge directly, without a limiter. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type ChallengeHandler,
  type ChallengeOptions,
  type ChallengeProvider,
  type ChallengeRequest,
  challenge,
  type ProviderOptions,
  turnstile,
} from "sluice/abuse";
import type { SiteverifyServer } from "../../test/servers/siteverify.js";

/** The secret that the stand-in of the provider accepts. */
export const PROVIDER_SECRET = "0x4AAAAAAAsecret-of-provider";

export interface AppOptions {
  challenge?: Partial<ChallengeOptions>;
  /** Whether responses set cookies. Default: `true`. */
  setsCookies?: boolean;
  /** Default: `turnstile`. */
  createProvider?: (options: ProviderOptions) => ChallengeProvider;
  /** The hostname that tokens must be solved on. Default: that of the request. */
  hostname?: string;
}

const FORM = `<!doctype html><html lang="en"><title>Form</title>
<form method="post" action="/form"><label>Name <input name="name"></label><button>Send</button></form>`;

/** Starts the server. `GET /form` is a form without a limit. */
export async function startApp(siteverify: SiteverifyServer, options: AppOptions = {}) {
  const { setsCookies = true, hostname, createProvider = turnstile } = options;
  const provider = createProvider({
    siteKey: "site-key",
    secret: PROVIDER_SECRET,
    url: siteverify.url,
    ...(hostname && { hostname }),
  });
  const configured = challenge({
    provider: { ...provider, ...siteverify.page },
    secret: ["a key of at least thirty-two bytes"],
    ...options.challenge,
  });
  const handler = (configured as unknown as Record<symbol, ChallengeHandler>)[
    Symbol.for("sluice.challenge")
  ] as ChallengeHandler;

  const server = createServer(async (incoming, outgoing) => {
    const request = readRequest(incoming);
    if (request.method === "GET" && request.path === "/form") return void respond(outgoing, 200, HTML, FORM);
    if (request.path === "/favicon.ico") return void respond(outgoing, 404, HTML, "");
    if (handler.isSolution(request)) {
      const { status, headers, body } = await handler.solve(request);
      const { "Set-Cookie": cookie, ...others } = headers;
      return void respond(outgoing, status, setsCookies && cookie ? { ...others, "Set-Cookie": cookie } : others, body);
    }
    if (handler.clearanceOf(request)) return void respond(outgoing, 200, HTML, "<h1>Welcome</h1>");
    const { status, headers, body } = handler.respond(request, "page");
    respond(outgoing, status, headers, body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    // Not 127.0.0.1, where the widget is: it has to work across origins.
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const HTML = { "Content-Type": "text/html; charset=utf-8" };

function respond(outgoing: ServerResponse, status: number, headers: object, body: string | Uint8Array | null): void {
  outgoing.writeHead(status, headers as Record<string, string>).end(body ?? undefined);
}

function readRequest(incoming: IncomingMessage): ChallengeRequest {
  return {
    method: incoming.method ?? "",
    path: incoming.url ?? "",
    ip: incoming.socket.remoteAddress,
    header: (name) => incoming.headers[name] as string | undefined,
    async body() {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk);
      return Buffer.concat(chunks);
    },
    countVerification: () => ({
      ...{ allowed: true, policy: "verifications", limit: 20, remaining: 19, resetAfterMs: 1, nextAfterMs: 1 },
    }),
    reports: { listRefreshed() {}, listStale() {}, providerDown() {} },
  };
}
