/**
 * Limits AI tokens per user, with a model server of its own: 200 streams at once whose cost is 0.2 to 3 times the estimate.
 * Run it with: node examples/run.js ai-tokens
 */
import { fakeClock } from "sluice/testing";
import { chat } from "./client.js";
import { startEndpoint } from "./endpoint.js";
import { startModel } from "./model-server.js";

const USERS = Array.from({ length: 10 }, (_, i) => `user-${i}`);
const STREAMS_PER_USER = 20;
const ESTIMATE = 100;

const model = await startModel();

/**
 * Runs one scenario and prints its sums.
 * @param {string} title
 * @param {number} tokensPerMinute
 * @param {number} [disconnectAfter]
 */
async function run(title, tokensPerMinute, disconnectAfter) {
  let forgiven = 0;
  let reported = 0;
  const endpoint = await startEndpoint({
    modelUrl: model.url,
    tokensPerMinute,
    // Time stands still, so that nothing refills and the sums can be compared.
    clock: fakeClock(),
    onSettle: (settlement) => (forgiven += settlement.forgiven ?? 0),
    // The same number, for logs and metrics.
    onEvent: (event) => (reported += event.type === "cost-forgiven" ? event.cost : 0),
  });
  const before = model.generatedTokens;
  const count = USERS.length * STREAMS_PER_USER;
  const clients = Array.from({ length: count }, (_, i) => {
    // From 3 to 0.2 times the estimate, and every user gets large and small ones.
    const cost = Math.round(ESTIMATE * (3 - (2.8 * i) / (count - 1)));
    const prompt = `Write ${cost - 5} words about rivers.`;
    return chat(endpoint.url, /** @type {string} */ (USERS[i % USERS.length]), prompt, disconnectAfter);
  });
  const statuses = await Promise.all(clients);
  // A client that disconnects does not wait for its settlement.
  await untilNothingIsHeld(endpoint);

  let charged = 0;
  let owed = 0;
  for (const user of USERS) {
    const { limit, remaining, debt = 0 } = await endpoint.tokens.inspect(`user:${user}`);
    charged += limit - remaining;
    owed += debt;
  }
  endpoint.stop();
  const used = model.generatedTokens - before;
  const served = statuses.filter((status) => status === 200).length;
  const isExact = used === charged + owed + forgiven && forgiven === reported;
  console.log(`${title}, ${tokensPerMinute} tokens per minute and user:
  requests  ${count} at once, ${served} streamed, ${count - served} rejected with 429
  used      ${used} tokens
  charged   ${charged}
  owed      ${owed}
  forgiven  ${forgiven}
  ${isExact ? "used = charged + owed + forgiven" : "The sums differ."}
`);
  if (!isExact) process.exitCode = 1;
}

/** Waits until every stream is settled. */
async function untilNothingIsHeld(/** @type {Awaited<ReturnType<typeof startEndpoint>>} */ { streams }) {
  for (const user of USERS) {
    while ((await streams.peek(`user:${user}`)).held) await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

await run("A limit that covers the overrun", 10_000);
await run("A small limit", 300);
await run("Clients that disconnect", 10_000, 10);
model.stop();
