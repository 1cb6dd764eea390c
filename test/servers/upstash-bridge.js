/** Upstash's REST protocol in front of a real redis-server. */
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, RespError } from "./resp.js";

/** @typedef {import("./resp.js").RawReply} RawReply */
/** @typedef {import("./resp.js").Connection} Connection */
/** @typedef {{ result: unknown } | { error: string }} Outcome */
/** @typedef {Awaited<ReturnType<typeof startUpstashBridge>>} UpstashBridge */

/** Starts an HTTP server on a free port that executes what it is sent on the redis-server of that port. */
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

  // One connection for all requests, and a new one after the server was away.
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
    const answer = (/** @type {number} */ status, /** @type {Outcome | Outcome[]} */ body) => {
      const headers = { "content-type": "application/json", "upstash-sync-token": `bridge-${commands}` };
      response.writeHead(status, headers).end(JSON.stringify(body));
    };
    try {
      const text = await bodyOf(request);
      if (failing !== undefined) return answer(failing, { error: `ERR the bridge was told to fail with ${failing}` });
      if (request.headers.authorization !== `Bearer ${token}`) return answer(401, { error: "Unauthorized" });
      syncToken = `${request.headers["upstash-sync-token"] ?? ""}`;
      const run = request.method === "POST" ? ROUTES[request.url ?? ""] : undefined;
      if (!run) return answer(404, { error: `ERR the bridge does not know ${request.method} ${request.url}` });
      const list = commandsIn(text, request.url === "/");
      if (!list) return answer(400, { error: "ERR failed to parse the command" });
      const connection = await redis();
      commands += list.length;
      const encode = request.headers["upstash-encoding"] === "base64" ? toBase64 : toText;
      const outcome = await run(connection, list, encode);
      if (drops > 0) {
        drops--;
        request.socket.destroy();
      } else {
        answer(!Array.isArray(outcome) && "error" in outcome ? 400 : 200, outcome);
      }
    } catch (error) {
      // Redis is away: a gateway would say so.
      answer(502, { error: `ERR ${/** @type {Error} */ (error).message}` });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());

  return {
    url: `http://127.0.0.1:${port}`,
    token,
    /** How many HTTP requests came, also those that were turned away. */
    get requests() {
      return requests;
    },
    /** How many commands were executed. */
    get commands() {
      return commands;
    },
    /** The `upstash-sync-token` of the last request: what an answer carried before, if the client sends it back. */
    get syncToken() {
      return syncToken;
    },
    /** Executes the next `count` requests and closes their connections instead of answering. */
    dropReplies(/** @type {number} */ count) {
      drops = count;
    },
    /** Answers everything with this status and executes nothing; `undefined` ends that. */
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
    // All are sent before anything is awaited, so no other request gets between them.
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

/** An error that Redis answered with is a result like others; a broken connection is not. */
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
 * The commands of a body; undefined when it is not of the right form.
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
