/**
 * Admission for Socket.IO. It is decided with the first request of a client, over polling as over WebSockets, before
 * engine.io creates a session.
 */
import type { ProblemResponse } from "../../http/rejection.ts";
import type { AdmissionControl, AdmissionResult } from "../engine/admission.ts";
import { onDisconnect, type RawSocket } from "../engine/upgrade.ts";
import { sessionIdOf } from "./internals.ts";

/** The part of a Node.js request that the guard uses. */
export interface SocketIoRequest {
  /** The headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The socket of the request. */
  readonly socket: RawSocket & { on(event: "error", listener: () => void): unknown };
}

/** The part of an engine.io `Socket` that the guard uses. All namespaces of a client share one. */
export interface EngineSocket {
  /** The session id, which clients send as `sid`. */
  readonly id: string;
  readonly request: object;
  readonly readyState: string;
  /** The current transport. Over WebSockets, it has a socket of the `ws` package. */
  readonly transport?: {
    readonly socket?: { once(event: "close", listener: () => void): unknown; terminate?(): void };
  };
  on(event: "packet", listener: (packet: { type: string; data?: unknown }) => void): unknown;
  once(event: "close", listener: () => void): unknown;
  close(): unknown;
}

/** The part of an engine.io `Server` that the guard uses. */
interface Engine {
  // biome-ignore lint/suspicious/noExplicitAny: a request has a type of the application.
  use(middleware: (request: any, response: any, next: () => void) => void): unknown;
  on(event: "connection", listener: (conn: EngineSocket) => void): unknown;
}

/** The result of admission, which the connection needs later. */
interface Admitted<Data> {
  readonly ip: string | undefined;
  readonly data: Data | undefined;
}

/** An engine.io session. */
interface Session {
  /** The reservation of its connection, if it was admitted. */
  readonly reservation: SharedReservation | undefined;
  /** Whether it may still switch from polling to a WebSocket, which shares the reservation. */
  mayUpgrade: boolean;
}

/** Adds admission to an engine.io server. Returns a function that looks up the result of admission of a connection. */
export function guardHandshake<Data, Request extends SocketIoRequest>(
  engine: Engine,
  admissionControl: AdmissionControl,
  dataOf: ((request: Request) => Data | undefined | Promise<Data | undefined>) | undefined,
): (conn: EngineSocket) => Admitted<Data> | undefined {
  const admitted = new WeakMap<
    object,
    Admitted<Data> & { readonly reservation: SharedReservation; readonly mayUpgrade: boolean }
  >();
  const sessions = new Map<string, Session>();

  engine.use((request: Request, response: Response, next) => {
    if (belongsToSession(request, response)) return next();
    admit(request, response).then(
      (admission) => {
        // `next` runs listeners of the application. In a microtask, their errors are not caught by this promise.
        if (admission.allowed) queueMicrotask(next);
        else respond(request, response, admission.response);
      },
      () => respond(request, response, { status: 500, headers: {}, body: "" }),
    );
  });
  engine.on("connection", (conn) => {
    const { reservation, mayUpgrade = true } = admitted.get(conn.request) ?? {};
    sessions.set(conn.id, { reservation, mayUpgrade });
    const release = reservation?.hold();
    conn.once("close", () => {
      sessions.delete(conn.id);
      release?.();
    });
  });

  /**
   * Whether a request shares the reservation of its session: it polls, or it is the one WebSocket that the session switches
   * to. Other WebSockets count as new connections. engine.io accepts any number of them for one session and leaves closing
   * them to the client, and it rejects unknown sessions only after the upgrade.
   */
  function belongsToSession(request: Request, response: Response): boolean {
    const session = sessions.get(sessionIdOf(request));
    if (!session || isPolling(response)) return session !== undefined;
    if (!session.mayUpgrade) return false;
    session.mayUpgrade = false;
    const release = session.reservation?.hold();
    // The socket may outlive the session: a client need not reply to a close.
    if (release) onDisconnect(request.socket, () => false, release);
    return true;
  }

  async function admit(request: Request, response: Response): Promise<AdmissionResult> {
    // Before the upgrade the socket has no `error` listener, and an unhandled error ends the process.
    if (!isPolling(response)) request.socket.on("error", () => {});
    let isPending = true;
    const requestLike = { peer: request.socket.remoteAddress, headers: request.headers };
    const data = () => dataOf?.(request);
    const reservation = new SharedReservation();
    const admission = await admissionControl.admit(requestLike, data, (release) => {
      reservation.release = release;
      // If the first request ends before there is a session, there will be no session.
      const releaseRequest = reservation.hold();
      if (!isPolling(response)) onDisconnect(request.socket, () => isPending, releaseRequest);
      else if (response.destroyed) releaseRequest();
      else response.once("close", releaseRequest);
    });
    isPending = false;
    if (!admission.allowed) return admission;
    admitted.set(request, { ip: admission.ip, data: admission.data, reservation, mayUpgrade: isPolling(response) });
    return admission;
  }

  return (conn) => admitted.get(conn.request);
}

/** A reservation that is held by the first request, the session and its WebSocket, and released by the last of them. */
class SharedReservation {
  release: () => void = () => {};
  private holders = 0;

  /** Adds a holder. Call the returned function once, when that holder is done. */
  hold(): () => void {
    this.holders++;
    return () => {
      if (--this.holders === 0) this.release();
    };
  }
}

/** engine.io passes a response object for polling requests, and for upgrades one that can't be written to. */
type Response = PollingResponse | { readonly writeHead: () => void };
interface PollingResponse {
  writeHead(status: number, headers: Record<string, string>): { end(body: string): void };
  readonly destroyed: boolean;
  once(event: "close", listener: () => void): unknown;
}

/** The methods of a Node.js socket that write the response to a rejected upgrade. */
interface WritableSocket {
  once(event: "finish", listener: () => void): unknown;
  end(text: string): unknown;
  destroy(): unknown;
}
const REASON_PHRASES: Readonly<Record<number, string>> = {
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

function isPolling(response: Response): response is PollingResponse {
  return "once" in response;
}

function respond(request: SocketIoRequest, response: Response, { status, headers, body }: ProblemResponse): void {
  if (isPolling(response)) {
    response.writeHead(status, headers).end(body);
    return;
  }
  const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = request.socket as unknown as WritableSocket;
  socket.once("finish", () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${REASON_PHRASES[status] ?? "Rejected"}\r\n${lines.join("")}\r\n${body}`);
}
