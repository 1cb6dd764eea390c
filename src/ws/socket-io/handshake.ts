/**
 * The door of Socket.IO: who may connect is decided with the first request of a client, over polling as over WebSockets,
 * before there is a session.
 */
import type { ResponseData as Answer } from "../../http/rejection.ts";
import type { Admission, Admissions } from "../engine/admission.ts";
import { type RawSocket, whenGone } from "../engine/upgrade.ts";

/** What is used of a request. */
export interface SocketIoRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: RawSocket & { on(event: "error", listener: () => void): unknown };
}

/** What is used of the connection below a socket, which all its namespaces share. */
export interface EngineSocket {
  /** The `sid` of its session. */
  readonly id: string;
  readonly request: object;
  readonly readyState: string;
  /** How its client is reached now; over a WebSocket, with the socket of `ws`. */
  readonly transport?: {
    readonly socket?: { once(event: "close", listener: () => void): unknown; terminate?(): void };
  };
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

/** A session of the engine. */
interface Session {
  /** The place that it was admitted to, if it was. */
  readonly place: Place | undefined;
  /** Whether it may still change from polling to a WebSocket, which takes no other place. */
  mayUpgrade: boolean;
}

/** Guards the door. Tells what was found out about a connection. */
export function guardDoor<Data, Request extends SocketIoRequest>(
  engine: Engine,
  admissions: Admissions,
  dataOf: ((request: Request) => Data | undefined | Promise<Data | undefined>) | undefined,
): (conn: EngineSocket) => Admitted<Data> | undefined {
  const admitted = new WeakMap<object, Admitted<Data> & { readonly place: Place; readonly mayUpgrade: boolean }>();
  const sessions = new Map<string, Session>();

  engine.use((request: Request & EngineRequest, response: Response, next) => {
    if (belongsToSession(request, response)) return next();
    admit(request, response).then(
      (admission) => {
        // What follows runs the application's listeners, whose faults are to end as they would without a guard.
        if (admission.allowed) queueMicrotask(next);
        else answer(request, response, admission.answer);
      },
      () => answer(request, response, { status: 500, headers: {}, body: "" }),
    );
  });
  engine.on("connection", (conn) => {
    const { place, mayUpgrade = true } = admitted.get(conn.request) ?? {};
    sessions.set(conn.id, { place, mayUpgrade });
    const leave = place?.hold();
    conn.once("close", () => {
      sessions.delete(conn.id);
      leave?.();
    });
  });

  /**
   * Whether a request needs no place of its own: it polls for a session, or is the one WebSocket that a session changes
   * to. The engine opens any number of WebSockets for one session and leaves it to their clients to close the others, and
   * it refuses unknown sessions only after the upgrade: those count as new connections.
   */
  function belongsToSession(request: Request & EngineRequest, response: Response): boolean {
    const session = sessions.get(request._query?.sid ?? "");
    if (!session || isPolling(response)) return session !== undefined;
    if (!session.mayUpgrade) return false;
    session.mayUpgrade = false;
    const leave = session.place?.hold();
    // It may outlast the session: a client need not answer a close.
    if (leave) whenGone(request.socket, () => false, leave);
    return true;
  }

  async function admit(request: Request, response: Response): Promise<Admission> {
    // Nobody else listens yet, and without a listener a client that breaks off would end the process.
    if (!isPolling(response)) request.socket.on("error", () => {});
    let isPending = true;
    const facts = { peer: request.socket.remoteAddress, headers: request.headers };
    const data = () => dataOf?.(request);
    const place = new Place();
    const admission = await admissions.admit(facts, data, (release) => {
      place.release = release;
      // When the first request is over and there is no connection, there will be none.
      const leave = place.hold();
      if (!isPolling(response)) whenGone(request.socket, () => isPending, leave);
      else if (response.destroyed) leave();
      else response.once("close", leave);
    });
    isPending = false;
    if (!admission.allowed) return admission;
    admitted.set(request, { ip: admission.ip, data: admission.data, place, mayUpgrade: isPolling(response) });
    return admission;
  }

  return (conn) => admitted.get(conn.request);
}

/** A place among the open connections, released when nothing holds it any more: no request, session or socket. */
class Place {
  release: () => void = () => {};
  private holders = 0;

  /** Holds the place. Call what it returns to let go, once. */
  hold(): () => void {
    this.holders++;
    return () => {
      if (--this.holders === 0) this.release();
    };
  }
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
