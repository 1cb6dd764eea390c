/** A router of ws-kit that Node and Bun serve alike. Users are told by the query, as if somebody had verified them. */
import { createRouter, message, rpc, withZod, z } from "@ws-kit/zod";

const text = { text: z.string() };
const Said = message("SAID", text);
const Search = rpc("SEARCH", { query: z.string() }, "FOUND", { hits: z.number() });

/** What messages cost; some of it can't be. */
const COSTS = { SAY: 1, SHOUT: 1, SEARCH: 1, FREE: 0, HUGE: 50, HALF: 0.5, OWING: -1, UNTOLD: Number.NaN };

/** Every type that has a handler. */
export const TYPES = Object.keys(COSTS);

/** @type {(context: { type: string }) => number} */
export const costOf = ({ type }) => COSTS[/** @type {keyof typeof COSTS} */ (type)];

/**
 * Says back what it hears.
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
 * What is known of who connects.
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
