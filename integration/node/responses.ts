/** The ways in which a Node handler can respond. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export const responses: readonly (readonly [name: string, handler: Handler])[] = [
  ["end with a body", (_, response) => void response.end("ok")],
  ["writeHead with headers", (_, response) => void response.writeHead(200, { "X-Own": "1" }).end("ok")],
  ["writeHead with a list", (_, response) => void response.writeHead(200, ["X-Own", "1"]).end("ok")],
  [
    "writeHead with a status",
    (_, response) => {
      response.setHeader("X-Own", "1");
      response.writeHead(200).end("ok");
    },
  ],
  ["writeHead with a message", (_, response) => void response.writeHead(200, "Fine", { "X-Own": "1" }).end("ok")],
  [
    "write, then end",
    (_, response) => {
      response.write("o");
      response.end("k");
    },
  ],
  [
    "a status and no body",
    (_, response) => {
      response.statusCode = 204;
      response.end();
    },
  ],
  [
    "flushHeaders",
    (_, response) => {
      response.flushHeaders();
      response.end("ok");
    },
  ],
  ["a stream", (_, response) => void pipeline(Readable.from(["o", "k"]), response)],
  ["a later call of end", (_, response) => void setImmediate(() => response.end("ok"))],
];
