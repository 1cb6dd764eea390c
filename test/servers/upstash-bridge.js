/** A server with Upstash's REST API in front of a redis-server. */
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, RespError } from "./resp.js";

/** @typedef {import("./resp.js").RawReply} RawReply */
/** @typedef {import("./resp.js").Connection} Connection */
/** @typedef {{ result: unknown } | { error: string }} Outcome */
/** @typedef {Awaited<ReturnType<typeof startUpstashBridge>>} UpstashBridge */

/** Starts an HTTP server on a free port that executes commands on the redis-server of the given port. */
export async function startUpstashBridge(/** @type {number} */ redisPort, { token = "test-token" } = {}) {
  let requests = 0;
  let commands = 0;
  let drops = 0;
  let syncToken = "";
  /** @type {number | undefined} */
  let failing;
  /** @type {Connection | undefined} */
  let current;
  /** @type {Promise<Connection> | undefined} */
  let opening;

  // One connection for all requests, reopened after it was lost.
  const redis = async () => {
    if (current?.open) return current;
    opening ??= connect(redisPort).finally(() => {
      opening = undefined;
    });
    current = await opening;
    return current;
  };

  const server = createServer(async (request, response) => {
    requests++;
    const respond = (/** @type {number} */ status, /** @type {Outcome | Outcome[]} */ body) => {
      const headers = { "content-type": "application/json", "upstash-sync-token": `bridge-${commands}` };
      response.writeHead(status, headers).end(JSON.stringify(body));
    };
    try {
      const text = await bodyOf(request);
      if (failing !== undefined) return respond(failing, { error: `ERR the bridge is set to fail with ${failing}` });
      if (request.headers.authorization !== `Bearer ${token}`) return respond(401, { error: "Unauthorized" });
      syncToken = `${request.headers["upstash-sync-token"] ?? ""}`;
      const run = request.method === "POST" ? ROUTES[request.url ?? ""] : undefined;
      if (!run) return respond(404, { error: `ERR the bridge does not know ${request.method} ${request.url}` });
      const list = commandsIn(text, request.url === "/");
      if (!list) return respond(400, { error: "ERR failed to parse the command" });
      const connection = await redis();
      commands += list.length;
      const encode = request.headers["upstash-encoding"] === "base64" ? toBase64 : toText;
      const outcome = await run(connection, list, encode);
      if (drops > 0) {
        drops--;
        request.socket.destroy();
      } else {
        respond(!Array.isArray(outcome) && "error" in outcome ? 400 : 200, outcome);
      }
    } catch (error) {
      // Redis is unavailable: respond like a gateway.
      respond(502, { error: `ERR ${/** @type {Error} */ (error).message}` });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());

  return {
    url: `http://127.0.0.1:${port}`,
    token,
    /** Number of HTTP requests, including rejected ones. */
    get requests() {
      return requests;
    },
    /** Number of executed commands. */
    get commands() {
      return commands;
    },
    /** The `upstash-sync-token` of the last request, which the client copies from an earlier response. */
    get syncToken() {
      return syncToken;
    },
    /** Executes the next `count` requests and closes their connections without a response. */
    dropReplies(/** @type {number} */ count) {
      drops = count;
    },
    /** Responds to everything with this status and executes nothing, until called with `undefined`. */
    fail(/** @type {number | undefined} */ status) {
      failing = status;
    },
    async stop() {
      const closed = server.listening ? once(server, "close") : undefined;
      server.close();
      server.closeAllConnections();
      await closed;
      current?.close();
    },
  };
}

/** @type {Record<string, (redis: Connection, list: string[][], encode: (reply: RawReply) => unknown) => Promise<Outcome | Outcome[]>>} */
const ROUTES = {
  async "/"(redis, [command = []], encode) {
    return outcomeOf(redis.callRaw(...command), encode);
  },
  async "/pipeline"(redis, list, encode) {
    return Promise.all(list.map((command) => outcomeOf(redis.callRaw(...command), encode)));
  },
  async "/multi-exec"(redis, list, encode) {
    // Send all before awaiting any: no other request can interleave.
    const sent = ["MULTI", ...list, "EXEC"].map((command) => redis.callRaw(...[command].flat()));
    const replies = await Promise.allSettled(sent);
    const exec = await outcomeOf(/** @type {Promise<RawReply>} */ (sent.at(-1)), (reply) => reply);
    if ("error" in exec) {
      const refused = replies.find((reply) => reply.status === "rejected");
      return refused ? { error: refused.reason.message } : exec;
    }
    const results = /** @type {RawReply[]} */ (exec.result);
    return results.map((reply) => (reply instanceof RespError ? { error: reply.message } : { result: encode(reply) }));
  },
};

/** An error reply of Redis is a result; a broken connection is not. */
async function outcomeOf(/** @type {Promise<RawReply>} */ reply, /** @type {(reply: RawReply) => unknown} */ encode) {
  try {
    return { result: encode(await reply) };
  } catch (error) {
    if (error instanceof RespError) return { error: error.message };
    throw error;
  }
}

async function bodyOf(/** @type {import("node:http").IncomingMessage} */ request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/**
 * The commands of a body, or undefined if it is invalid.
 * @returns {string[][] | undefined}
 */
function commandsIn(/** @type {string} */ text, /** @type {boolean} */ single) {
  /** @type {unknown} */
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    return undefined;
  }
  const list = single ? [body] : body;
  if (!Array.isArray(list) || list.length === 0) return undefined;
  if (!list.every((command) => Array.isArray(command) && command.length > 0)) return undefined;
  return list.map((command) => command.map(String));
}

/** @returns {unknown} */
function toText(/** @type {RawReply} */ reply) {
  if (Array.isArray(reply)) return reply.map(toText);
  return Buffer.isBuffer(reply) ? reply.toString() : reply;
}

/** @returns {unknown} */
function toBase64(/** @type {RawReply} */ reply) {
  if (Array.isArray(reply)) return reply.map(toBase64);
  if (typeof reply !== "string" && !Buffer.isBuffer(reply)) return reply;
  return reply.toString() === "OK" ? "OK" : Buffer.from(reply).toString("base64");
}
