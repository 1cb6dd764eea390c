/** The guard for the `ws` package on Node.js. Rejects connections in `verifyClient`, before the upgrade. */
import { optionError, SluiceError } from "../../base/errors.ts";
import type { AdmissionResult } from "../engine/admission.ts";
import { callListener } from "../engine/callbacks.ts";
import type { Connection } from "../engine/connection.ts";
import { buildGuard, type GuardOptions } from "../engine/create-guard.ts";
import { checkFunction } from "../engine/guard-config.ts";
import type { HandleFrame } from "../engine/ingress.ts";
import { serverMaxPayload } from "../engine/sockets.ts";
import { onDisconnect, type RawSocket } from "../engine/upgrade.ts";
import { type WsData, WsPeer, type WsSocket } from "./ws-peer.ts";

/** A frame as the guard passes it on: text or binary. */
export type WsFrame = string | Uint8Array;

/** The part of a Node.js request that the guard uses. */
export interface WsRequest {
  /** The request target: path and query. */
  readonly url?: string | undefined;
  /** The headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The socket of the request. */
  readonly socket: RawSocket;
}

type VerifyClient = (info: { req: WsRequest }, callback: VerifyCallback) => void;
type VerifyCallback = (accepted: boolean, code?: number, message?: string, headers?: Record<string, string>) => void;

/** The part of a `WebSocketServer` that the guard uses. */
export interface WsServer {
  /** The options of the server, which the guard adds to. */
  // biome-ignore lint/suspicious/noExplicitAny: `verifyClient` has two signatures, and takes more than is passed on here.
  options: { verifyClient?: any; autoPong?: boolean | undefined; maxPayload?: number | undefined };
  /** Listens for connections. */
  // biome-ignore lint/suspicious/noExplicitAny: a socket has a type of the application.
  on?(event: "connection", listener: (socket: any, request: any) => void): unknown;
}

/** Options of `guardWs`. */
export interface WsGuardOptions<Data, Request extends WsRequest> extends GuardOptions<Data, WsFrame> {
  /** Returns the data of a connection, such as a verified user. If it throws, the upgrade is rejected. Default: no data. */
  data?: (request: Request) => Data | undefined | Promise<Data | undefined>;
}

/** Guards the connections of one server. */
export interface WsGuard<Data, Request extends WsRequest> {
  /**
   * Guards the frames of a connection, instead of a `message` listener. Text frames are passed on as strings. Call it
   * synchronously in the `connection` listener: frames received before it are lost.
   */
  attach(socket: WsSocket, request: Request, handle: HandleFrame<Data, WsFrame>): Connection<Data, WsFrame>;
}

/** A client that was admitted and is not attached yet. */
interface AdmittedClient<Data> {
  readonly ip: string | undefined;
  readonly data: Data | undefined;
  /** Whether its socket has an `error` listener. */
  handlesErrors: boolean;
}

/** The default of the `maxPayload` option of `ws`: 100 MiB. */
const WS_DEFAULT_MAX_PAYLOAD = 104_857_600;

/** Guards a `WebSocketServer`: rejects connections before the upgrade, and checks frames of the connections you attach. */
export function guardWs<Data = unknown, Request extends WsRequest = WsRequest>(
  server: WsServer,
  options: WsGuardOptions<Data, Request> = {},
): WsGuard<Data, Request> {
  const guard = buildGuard("guardWs", options, ["data"]);
  if (typeof server?.options !== "object" || server.options === null) {
    throw optionError("invalid-option", "server", "a WebSocketServer of the ws package", server);
  }
  checkFunction("data", options.data);
  const { maxBytes, onError, reportError } = guard.config;
  const admitted = new WeakMap<Request, AdmittedClient<Data>>();
  const { verifyClient: ownVerifyClient, autoPong, maxPayload = WS_DEFAULT_MAX_PAYLOAD } = server.options;
  if (maxPayload === WS_DEFAULT_MAX_PAYLOAD) {
    server.options.maxPayload = Math.min(WS_DEFAULT_MAX_PAYLOAD, serverMaxPayload(maxBytes));
  }

  const admit = async (request: Request): Promise<AdmissionResult> => {
    const requestLike = { peer: request.socket.remoteAddress, headers: request.headers };
    const data = () => options.data?.(request) as Data;
    let isPending = true;
    // The count follows the TCP socket, which also closes if the upgrade fails.
    const admission = await guard.admit(requestLike, data, (release) => {
      onDisconnect(request.socket, () => isPending, release);
    });
    isPending = false;
    if (admission.allowed) admitted.set(request, { ip: admission.ip, data: admission.data, handlesErrors: false });
    return admission;
  };

  const verifyClient: VerifyClient = (info, callback) => {
    // The callback runs listeners of the application. In a microtask, their errors are not caught by the promise below.
    const callbackLater: VerifyCallback = (...args) => queueMicrotask(() => callback(...args));
    admit(info.req as Request).then(
      (admission) => {
        if (!admission.allowed) {
          const { status, body, headers } = admission.response;
          callbackLater(false, status, body, headers);
          return;
        }
        try {
          if (typeof ownVerifyClient !== "function") callbackLater(true);
          else if (ownVerifyClient.length === 2) ownVerifyClient(info, callbackLater);
          else callbackLater(ownVerifyClient(info));
        } catch (error) {
          reportError(error);
          callbackLater(false, 500);
        }
      },
      (error) => {
        reportError(error);
        callbackLater(false, 500);
      },
    );
  };
  server.options.verifyClient = verifyClient;

  /** Without an `error` listener, a frame that violates the protocol would end the process. */
  const handleErrors = (socket: WsSocket, request: Request) => {
    const client = admitted.get(request);
    if (!client || client.handlesErrors) return;
    client.handlesErrors = true;
    socket.on("error", (error) => callListener(onError, undefined, error));
  };
  // Handle socket errors that occur before `attach()`.
  server.on?.("connection", handleErrors);

  return {
    attach(socket, request, handle) {
      const client = admitted.get(request) ?? rejectUnknownRequest(request);
      if (typeof handle !== "function") throw optionError("invalid-option", "handle", "a function", handle);
      if (socket.binaryType === "blob") throw blobError();
      handleErrors(socket, request);
      // Drop the entry: a WeakMap keeps the size that it reached in a flood of connections.
      admitted.delete(request);
      const peer = new WsPeer(socket, client, maxBytes);
      const connection = guard.attach(peer);
      socket.on("message", (data, isBinary) => {
        if (connection.closed) {
          peer.dropAfterClose(bytesOf(data)?.length ?? 0);
          return;
        }
        const bytes = bytesOf(data);
        if (!bytes) {
          if (connection.control()) reportError(blobError());
          return;
        }
        // Don't decode text that is too large.
        connection.receive(isBinary || bytes.length > maxBytes ? bytes : String(bytes), handle, bytes.length);
      });
      socket.on("ping", (data) => {
        // With autoPong, which is the default, ws has already sent the pong.
        if (connection.ping()) {
          if (autoPong === false) socket.pong(data);
        } else if (connection.closed) peer.dropAfterClose(data.length);
      });
      socket.on("pong", (data) => {
        if (!connection.ping() && connection.closed) peer.dropAfterClose(data.length);
      });
      socket.on("close", () => {
        peer.cancelTermination();
        connection.end();
      });
      return connection;
    },
  };
}

/** Returns the bytes of a frame for each `binaryType`, or `undefined` for a Blob, which can only be read later. */
function bytesOf(data: WsData): Uint8Array | undefined {
  if (data instanceof Uint8Array) return data;
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (!Array.isArray(data)) return undefined;
  const whole = new Uint8Array(data.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of data) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function blobError(): SluiceError {
  return optionError("invalid-option", "binaryType", '"nodebuffer", "arraybuffer" or "fragments"', "blob");
}

function rejectUnknownRequest(received: unknown): never {
  const expected = "the request of a connection that this guard admitted";
  const message = `attach() needs ${expected}, and each request can be attached only once.`;
  throw new SluiceError("invalid-option", message, { option: "request", expected, received });
}
