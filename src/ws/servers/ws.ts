/** For the `ws` package on Node. Connections are refused where it verifies clients, before the upgrade. */
import { optionError, type SluiceError } from "../../core/errors.ts";
import type { Admission } from "../engine/admission.ts";
import { tell } from "../engine/callbacks.ts";
import type { Connection, HandleFrame } from "../engine/connection.ts";
import { type GuardOptions, guardOf } from "../engine/create-guard.ts";
import { checkFunction } from "../engine/options.ts";
import { afterCloseTimeout, mostReadOf, SocketPeer } from "../engine/sockets.ts";
import { type RawSocket, whenGone } from "../engine/upgrade.ts";

/** A frame of `ws`: a text, or bytes. */
export type WsFrame = string | Uint8Array;

/** What is used of a request. */
export interface WsRequest {
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: RawSocket;
}

/** What is used of a socket. */
export interface WsSocket {
  readonly readyState: number;
  readonly binaryType?: string;
  on(event: "message", listener: (data: WsData, isBinary: boolean) => void): unknown;
  on(event: "ping" | "pong", listener: (data: Uint8Array) => void): unknown;
  on(event: "close", listener: () => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  send(data: string | Uint8Array): void;
  pong(data: Uint8Array): void;
  close(code: number, reason: string): void;
  pause?(): void;
  terminate?(): void;
}

type WsData = Uint8Array | ArrayBuffer | Uint8Array[];
type Verify = (info: { req: WsRequest }, answer: VerifyAnswer) => void;
type VerifyAnswer = (result: boolean, code?: number, message?: string, headers?: Record<string, string>) => void;

/** What is used of a server. */
export interface WsServer {
  // biome-ignore lint/suspicious/noExplicitAny: what others gave it has one of two forms, and takes more than we pass on.
  options: { verifyClient?: any; autoPong?: boolean | undefined; maxPayload?: number | undefined };
  // biome-ignore lint/suspicious/noExplicitAny: a socket has a type of the application.
  on?(event: "connection", listener: (socket: any, request: any) => void): unknown;
}

/** How connections to a server of `ws` are guarded. */
export interface WsGuardOptions<Data, Request extends WsRequest> extends GuardOptions<Data, WsFrame> {
  /** What is known of who connects, such as a verified user. A connection that it throws at is not let in. Default: nothing. */
  data?: (request: Request) => Data | undefined | Promise<Data | undefined>;
}

/** Guards the connections of one server. */
export interface WsGuard<Data, Request extends WsRequest> {
  /** Guards the frames of a connection, in place of a listener to `message`. Texts are strings. */
  attach(socket: WsSocket, request: Request, handle: HandleFrame<Data, WsFrame>): Connection<Data, WsFrame>;
}

/** What is known of a client that was let in, and whether errors of its socket are listened to. */
interface Known<Data> {
  readonly ip: string | undefined;
  readonly data: Data | undefined;
  isHeard: boolean;
}

/** What `ws` reads of a frame unless it is told otherwise, before anybody else sees it: 100 MiB. */
const UNTOLD = 104_857_600;

/** What is still read after a close, and at least one frame: a client may have sent it before the close reached it. */
const BYTES_AFTER_CLOSE = 65_536;
/** What a frame counts there besides its payload. */
const BYTES_PER_FRAME = 64;

/** Guards a server of `ws`, however it was made: it decides who may connect, and `attach` what they may send. */
export function guardWs<Data = unknown, Request extends WsRequest = WsRequest>(
  server: WsServer,
  options: WsGuardOptions<Data, Request> = {},
): WsGuard<Data, Request> {
  const guard = guardOf("guardWs", options, ["data"]);
  if (typeof server?.options !== "object" || server.options === null) {
    throw optionError("invalid-option", "server", "a WebSocketServer of ws", server);
  }
  checkFunction("data", options.data);
  const { maxBytes, onError, reportError } = guard.rules;
  const known = new WeakMap<Request, Known<Data>>();
  const { verifyClient: theirs, autoPong, maxPayload = UNTOLD } = server.options;
  if (maxPayload === UNTOLD) server.options.maxPayload = Math.min(UNTOLD, mostReadOf(maxBytes));

  const admit = async (request: Request): Promise<Admission> => {
    const facts = { peer: request.socket.remoteAddress, headers: request.headers };
    const data = () => options.data?.(request) as Data;
    let isPending = true;
    // A count follows the socket below, which also closes when no connection comes about.
    const admission = await guard.admit(facts, data, (release) => {
      whenGone(request.socket, () => isPending, release);
    });
    isPending = false;
    if (admission.allowed) known.set(request, { ip: admission.ip, data: admission.data, isHeard: false });
    return admission;
  };

  const verify: Verify = (info, answer) => {
    // An answer runs the application's listeners, whose faults are to end as they would without a guard.
    const answerLater: VerifyAnswer = (...how) => queueMicrotask(() => answer(...how));
    admit(info.req as Request).then(
      (admission) => {
        if (!admission.allowed) {
          const { status, body, headers } = admission.answer;
          answerLater(false, status, body, headers);
          return;
        }
        try {
          if (typeof theirs !== "function") answerLater(true);
          else if (theirs.length === 2) theirs(info, answerLater);
          else answerLater(theirs(info));
        } catch (error) {
          reportError(error);
          answerLater(false, 500);
        }
      },
      (error) => {
        reportError(error);
        answerLater(false, 500);
      },
    );
  };
  server.options.verifyClient = verify;

  /** Without a listener, a client could end the process with a frame that breaks the protocol. */
  const hear = (socket: WsSocket, request: Request) => {
    const client = known.get(request);
    if (!client || client.isHeard) return;
    client.isHeard = true;
    socket.on("error", (error) => tell(onError, undefined, error));
  };
  // Whoever attaches late has nothing to fear meanwhile.
  server.on?.("connection", hear);

  return {
    attach(socket, request, handle) {
      const client = known.get(request) ?? refuseStranger(request);
      if (typeof handle !== "function") throw optionError("invalid-option", "handle", "a function", handle);
      if (socket.binaryType === "blob") throw unreadable();
      hear(socket, request);
      // From here on the connection knows it. A table of all sockets would keep the size that it has in a flood.
      known.delete(request);
      const peer = new WsPeer(socket, client.ip, client.data, Math.max(BYTES_AFTER_CLOSE, maxBytes));
      const connection = guard.attach(peer);
      socket.on("message", (data, isBinary) => {
        if (connection.closed) {
          peer.dropAfterClose(bytesOf(data)?.length ?? 0);
          return;
        }
        const bytes = bytesOf(data);
        if (!bytes) {
          if (connection.control()) reportError(unreadable());
          return;
        }
        // What is too large is not worth decoding.
        connection.receive(isBinary || bytes.length > maxBytes ? bytes : String(bytes), handle, bytes.length);
      });
      socket.on("ping", (data) => {
        // Unless told otherwise, the server has answered already.
        if (connection.ping()) {
          if (autoPong === false) socket.pong(data);
        } else if (connection.closed) peer.dropAfterClose(data.length);
      });
      socket.on("pong", (data) => {
        if (!connection.ping() && connection.closed) peer.dropAfterClose(data.length);
      });
      socket.on("close", () => {
        peer.answered();
        connection.end();
      });
      return connection;
    },
  };
}

/** A socket that is not read for long after it was closed: `ws` by itself reads and inflates for 30 seconds more. */
class WsPeer<Data> extends SocketPeer<Data> {
  declare protected readonly socket: WsSocket;
  /** Called when the client has answered the close. */
  answered: () => void = () => {};
  /** What it may still send when it is closed. */
  private bytesLeft: number;

  constructor(socket: WsSocket, ip: string | undefined, data: Data | undefined, bytesAfterClose: number) {
    super(socket, ip, data);
    this.bytesLeft = bytesAfterClose;
  }

  override close(code: number, reason: string): void {
    super.close(code, reason);
    this.answered = afterCloseTimeout(() => this.socket.terminate?.());
  }

  /** Counts a frame that came after the close. Pause a client that keeps sending; the close timeout then destroys it. */
  dropAfterClose(bytes: number): void {
    this.bytesLeft -= bytes + BYTES_PER_FRAME;
    if (this.bytesLeft < 0) this.socket.pause?.();
  }
}

/** The bytes of a frame, in whatever form the socket was told to give them. A text is always one buffer. */
function bytesOf(data: WsData): Uint8Array | undefined {
  if (data instanceof Uint8Array) return data;
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  // A Blob tells its bytes later.
  if (!Array.isArray(data)) return undefined;
  const whole = new Uint8Array(data.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of data) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function unreadable(): SluiceError {
  return optionError("invalid-option", "binaryType", "nodebuffer, arraybuffer or fragments", "blob");
}

function refuseStranger(request: unknown): never {
  throw optionError(
    "invalid-option",
    "request",
    "the request of a connection to the server that is guarded, not attached yet",
    request,
  );
}
