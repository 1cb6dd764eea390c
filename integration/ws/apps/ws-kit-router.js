/** A ws-kit router for Node.js and Bun. Users are in the query, as if they had been verified. */
import { createRouter, message, rpc, withZod, z } from "@ws-kit/zod";

const text = { text: z.string() };
const Said = message("SAID", text);
const Search = rpc("SEARCH", { query: z.string() }, "FOUND", { hits: z.number() });

/** Costs of the message types, some of them invalid. */
const COSTS = { SAY: 1, SHOUT: 1, SEARCH: 1, FREE: 0, HUGE: 50, FRACTION: 0.5, NEGATIVE: -1, NOT_A_NUMBER: Number.NaN };

/** The types that have a handler. */
export const TYPES = Object.keys(COSTS);

/** @type {(context: { type: string }) => number} */
export const costOf = ({ type }) => COSTS[/** @type {keyof typeof COSTS} */ (type)];

/**
 * Creates a router that sends every text back.
 * @param {import("@ws-kit/core").Middleware} limit
 * @param {{ afterZod?: boolean, onHandled?: (text: string) => void, onError?: (error: any) => void }} [options]
 */
export function routerWith(limit, { afterZod = false, onHandled, onError } = {}) {
  const plain = createRouter();
  if (!afterZod) plain.use(limit);
  const router = plain.plugin(withZod());
  if (afterZod) router.use(limit);
  router.onError((error) => onError?.(error));
  for (const type of TYPES.filter((type) => type !== "SEARCH")) {
    router.on(message(type, text), (context) => {
      onHandled?.(context.payload.text);
      context.send(Said, { text: context.payload.text });
    });
  }
  router.rpc(Search, (context) => context.reply({ hits: context.payload.query.length }));
  return router;
}

/**
 * Reads the data of a connection from its URL.
 * @param {string} url
 */
export function dataOf(url) {
  const { searchParams } = new URL(url, "ws://127.0.0.1");
  return Object.fromEntries(
    ["userId", "tenantId"].flatMap((name) => {
      const value = searchParams.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
}
