/**
 * The door of Socket.IO: who may connect is decided with the first request of a client, over polling as over WebSockets,
 * before there is a session.
 */
import type { Answer } from "../http/too-many-requests.ts";
import type { Admission, Admissions } from "./admission.ts";
import { type RawSocket, whenGone } from "./upgrade.ts";

/** What is used of a request. */
export interface SocketIoRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: RawSocket & { on(event: "error", listener: () => void): unknown };
}

/** What is used of the connection below a socket, which all its namespaces share. */
export interface EngineSocket {
  readonly request: object;
  readonly readyState: string;
  on(event: "packet", listener: (packet: { type: string; data?: unknown }) => void): unknown;
  once(event: "close", listener: () => void): unknown;
  close(): unknown;
}

/** What is used of the server below. */
interface Engine {
  // biome-ignore lint/suspicious/noExplicitAny: a request has a type of the application.
  use(middleware: (request: any, response: any, next: () => void) => void): unknown;
  on(event: "connection", listener: (conn: EngineSocket) => void): unknown;
}

/** What was found out about a connection before it came about. */
interface Admitted<Data> {
  readonly ip: string | undefined;
  readonly data: Data | undefined;
}

/** Guards the door. Tells what was found out about a connection. */
export function guardDoor<Data, Request extends SocketIoRequest>(
  engine: Engine,
  admissions: Admissions,
  dataOf: ((request: Request) => Data | undefined | Promise<Data | undefined>) | undefined,
): (conn: EngineSocket) => Admitted<Data> | undefined {
  const admitted = new WeakMap<object, Admitted<Data> & { arrive(conn: EngineSocket): void }>();

  engine.use((request: Request & EngineRequest, response: Response, next) => {
    // Later requests of a connection that was let in. An empty name is that of a new one.
    if (request._query?.sid) return next();
    admit(request, response).then((admission) => {
      // What follows runs the application's listeners, whose faults are to end as they would without a guard.
      if (admission.allowed) queueMicrotask(next);
      else answer(request, response, admission.answer);
    });
  });
  engine.on("connection", (conn) => admitted.get(conn.request)?.arrive(conn));

  async function admit(request: Request, response: Response): Promise<Admission> {
    // Nobody else listens yet, and without a listener a client that breaks off would end the process.
    if (!isPolling(response)) request.socket.on("error", () => {});
    let [isPending, hasArrived] = [true, false];
    const facts = { peer: request.socket.remoteAddress, headers: request.headers };
    const data = () => dataOf?.(request);
    const admission = await admissions.admit(facts, data, (release) => {
      // When the first request is over and there is no connection, there will be none.
      const over = () => void (hasArrived || release());
      if (!isPolling(response)) whenGone(request.socket, () => isPending, over);
      else if (response.destroyed) over();
      else response.once("close", over);
    });
    isPending = false;
    if (!admission.allowed) return admission;
    const arrive = (conn: EngineSocket) => {
      hasArrived = true;
      conn.once("close", admission.release);
    };
    admitted.set(request, { ip: admission.ip, data: admission.data, arrive });
    return admission;
  }

  return (conn) => admitted.get(conn.request);
}

/** What Socket.IO knows of a request, and answers to it. That of an upgrade can't be written to. */
interface EngineRequest {
  readonly _query?: { readonly sid?: string };
}
type Response = PollingResponse | { readonly writeHead: () => void };
interface PollingResponse {
  writeHead(status: number, headers: Record<string, string>): { end(body: string): void };
  readonly destroyed: boolean;
  once(event: "close", listener: () => void): unknown;
}

interface AnsweringSocket {
  once(event: "finish", listener: () => void): unknown;
  end(text: string): unknown;
  destroy(): unknown;
}
const REASONS: Readonly<Record<number, string>> = {
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

function isPolling(response: Response): response is PollingResponse {
  return "once" in response;
}

function answer(request: SocketIoRequest, response: Response, { status, headers, body }: Answer): void {
  if (isPolling(response)) {
    response.writeHead(status, headers).end(body);
    return;
  }
  const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = request.socket as unknown as AnsweringSocket;
  socket.once("finish", () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${REASONS[status] ?? "Refused"}\r\n${lines.join("")}\r\n${body}`);
}
