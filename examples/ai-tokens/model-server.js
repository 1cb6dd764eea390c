/**
 * A fake model server with the streaming format of OpenAI's chat completions. It reads "100 words" in the prompt, streams
 * that many tokens as server-sent events, and ends with a usage object.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";

/** Tokens per step of 10 ms. */
const TOKENS_PER_STEP = 10;

/** Starts the model and returns its URL, what it has generated, and a function that stops it. */
export async function startModel() {
  /** @type {Map<string, AbortController>} */
  const streams = new Map();
  /** Tokens of all prompts and completions so far: what a provider would bill. */
  let generatedTokens = 0;

  const server = createServer(async (request, response) => {
    const [, cancelled] = /^\/v1\/chat\/completions\/([^/]+)\/cancel$/.exec(request.url ?? "") ?? [];
    if (cancelled) {
      streams.get(cancelled)?.abort();
      response.writeHead(204).end();
      return;
    }
    const { messages } = /** @type {{ messages: { content: string }[] }} */ (await json(request));
    const prompt = messages.map(({ content }) => content).join(" ");
    const wanted = Number(/(\d+) words/.exec(prompt)?.[1] ?? 100);
    const id = randomUUID();
    const cancel = new AbortController();
    streams.set(id, cancel);
    response.on("close", () => cancel.abort());
    /** @param {object} event */
    const send = (event) => response.write(`data: ${JSON.stringify({ id, ...event })}\n\n`);

    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const promptTokens = countTokens(prompt);
    let completionTokens = 0;
    while (completionTokens < wanted && !cancel.signal.aborted) {
      await delay(10);
      for (let i = 0; i < TOKENS_PER_STEP && completionTokens < wanted; i++) {
        completionTokens++;
        send({ choices: [{ delta: { content: "word " } }], usage: null });
      }
    }
    streams.delete(id);
    const totalTokens = promptTokens + completionTokens;
    generatedTokens += totalTokens;
    const usage = { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: totalTokens };
    send({ choices: [], usage });
    response.end("data: [DONE]\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/v1/chat/completions`,
    get generatedTokens() {
      return generatedTokens;
    },
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Counts the tokens of a prompt. A word is a token here; use your model's tokenizer. */
export function countTokens(/** @type {string} */ prompt) {
  return prompt.split(/\s+/).filter(Boolean).length;
}
