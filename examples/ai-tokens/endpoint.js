/**
 * A streaming chat endpoint with three limits per user: tokens per minute, streams at once and requests per minute. It
 * holds an estimate before it calls the model, and settles what the model has used.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { concurrency, createLimiter, holdAll, memoryStore, tokenBucket } from "sluice";
import { tooManyRequests } from "sluice/http";
import { countTokens } from "./model-server.js";
import { readEvents } from "./read-events.js";

/** The typical length of a completion, not the maximum: a larger one becomes a debt of the user. */
const TYPICAL_COMPLETION = 95;
/** How long a hold lasts unless it is renewed. A crash of this process keeps a stream's slot for that long. */
const HOLD_MS = 60_000;

/**
 * @typedef {object} EndpointOptions
 * @property {string} modelUrl
 * @property {number} tokensPerMinute per user
 * @property {import("sluice").Clock} clock leave it out in your application
 * @property {import("sluice").OnEvent} onEvent
 * @property {(settlement: import("sluice").Settlement) => void} onSettle
 */

/** Starts the endpoint. */
export async function startEndpoint(/** @type {EndpointOptions} */ options) {
  const { modelUrl, tokensPerMinute, clock, onEvent, onSettle } = options;
  const store = memoryStore({ clock });
  const tokens = createLimiter({ policy: tokenBucket(`${tokensPerMinute}/m`, { name: "tokens" }), store, onEvent });
  const streams = createLimiter({ policy: concurrency(20, { leaseMs: HOLD_MS, name: "streams" }), store });
  const requests = createLimiter({ policy: tokenBucket("60/m", { name: "requests" }), store });
  const policies = [tokens, streams, requests].map((limiter) => limiter.getPolicy());

  const server = createServer(async (request, response) => {
    // Replace this with your authentication.
    const user = `user:${request.headers["x-user"] ?? "anonymous"}`;
    const { prompt } = /** @type {{ prompt: string }} */ (await json(request));

    const decision = await holdAll(
      [
        { limiter: tokens, key: user, amount: countTokens(prompt) + TYPICAL_COMPLETION },
        { limiter: streams, key: user },
        { limiter: requests, key: user, cost: 1 },
      ],
      { forMs: HOLD_MS },
    );
    if (!decision.allowed) {
      const { status, headers, body } = tooManyRequests(decision, policies, { accept: request.headers.accept });
      response.writeHead(status, headers).end(body);
      return;
    }
    const { hold } = decision;
    const renewal = setInterval(() => hold.renew(), HOLD_MS / 3);
    let used = 0;
    try {
      used = await stream(prompt, response, (counted) => (used = counted));
    } catch (error) {
      console.error(error);
      response.destroy();
    } finally {
      clearInterval(renewal);
      // Charges what was used, also if the model failed halfway, and frees the stream.
      onSettle(await hold.settle(used));
    }
    // Not before the settlement: a client that has read everything finds its usage charged.
    response.end();
  });

  /**
   * Sends the model's tokens to the client and returns how many were used. If the client disconnects, it cancels the
   * request, and the model reports what it had generated. `onCount` is called in case the model fails before that.
   * @param {string} prompt
   * @param {import("node:http").ServerResponse} response
   * @param {(counted: number) => void} onCount
   */
  async function stream(prompt, response, onCount) {
    const body = {
      messages: [{ role: "user", content: prompt }],
      stream: true,
      stream_options: { include_usage: true },
    };
    const reply = await fetch(modelUrl, { method: "POST", body: JSON.stringify(body) });
    if (!reply.ok || !reply.body) throw new Error(`The model responded with ${reply.status}.`);
    response.writeHead(200, { "Content-Type": "text/plain" });
    let counted = countTokens(prompt);
    let isCancelled = false;
    for await (const { id, choices, usage } of readEvents(reply.body)) {
      if (usage) return usage.total_tokens;
      onCount(++counted);
      if (!response.destroyed) response.write(choices[0]?.delta.content);
      else if (!isCancelled) {
        isCancelled = true;
        await fetch(`${modelUrl}/${id}/cancel`, { method: "POST" });
      }
    }
    return counted;
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/`,
    tokens,
    streams,
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
