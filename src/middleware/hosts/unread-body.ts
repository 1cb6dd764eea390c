/** Notices that a client of Node's `http` servers disconnects while nobody reads the body of its request. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { MAX_AFTER_DISCONNECT_MS } from "../gate/after-disconnect.ts";
import { hasNodeBody } from "../gate/preflight.ts";
import { onceClosed } from "./node-close.ts";

/** How often a body is checked, in ms. */
const POLL_MS = 1000;
/** When a body is checked again after Node was told to read a chunk of it, which pauses the socket again, in ms. */
const CHUNK_MS = 20;
/** How much of a body is read ahead of the handler, in bytes; up to one chunk more. */
const MAX_AHEAD_BYTES = 512 * 1024;
/** How much is read ahead in all, in bytes, so that many clients can't fill the memory. */
const MAX_ALL_AHEAD_BYTES = 16 * 1024 * 1024;

/** What is read ahead in all requests, in bytes. */
let allAheadBytes = 0;

/**
 * Node stops reading a socket while the buffer of a request is full, and then can't see a disconnect. Reads on into that
 * buffer: the end of the connection comes after the bytes that the client has sent, and a handler that reads the body later
 * still gets all of it. Calls `onUnseen` if the state of the connection was unknown for a minute, because the body is longer.
 */
export function watchUnreadBody(response: ServerResponse, onUnseen?: () => void): void {
  const { req: request } = response as { req?: IncomingMessage };
  // Mocks have no socket. HTTP/2 has one for all streams, which is always read.
  if (typeof request?.socket?.isPaused !== "function" || request.httpVersionMajor > 1) return;
  if (request.complete || !hasNodeBody(request)) return;
  const { socket } = request;
  let isStopped = false;
  let aheadBytes = 0;
  let unseenMs = 0;
  let last = { bytesRead: 0, length: 0 };
  const count = (bytes: number): void => {
    allAheadBytes += bytes - aheadBytes;
    aheadBytes = bytes;
  };
  const readAhead = (): void => {
    if (request.complete) stop();
    if (isStopped) return;
    count(Math.max(0, request.readableLength - request.readableHighWaterMark));
    if (!socket.isPaused() || aheadBytes >= MAX_AHEAD_BYTES || allAheadBytes >= MAX_ALL_AHEAD_BYTES) return;
    socket.resume();
    setTimeout(readAhead, CHUNK_MS).unref?.();
  };
  const poll = setInterval(() => {
    readAhead();
    const { bytesRead } = socket;
    const { readableLength: length } = request;
    // Bun does not count the bytes of a socket.
    const isSeen = !socket.isPaused() || bytesRead !== last.bytesRead || length !== last.length;
    last = { bytesRead, length };
    unseenMs = isSeen ? 0 : unseenMs + POLL_MS;
    if (unseenMs === MAX_AFTER_DISCONNECT_MS) onUnseen?.();
  }, POLL_MS);
  poll.unref?.();
  const stop = (): void => {
    isStopped = true;
    clearInterval(poll);
    count(0);
  };
  onceClosed(response, stop);
}
