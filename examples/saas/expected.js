/** How many requests the rules allow at once, calculated from their data without the code that enforces them. */
import { presets } from "sluice/rules";

/** The facts of every request of the driver. */
export const FACTS = { items: 1, tokens: 1000 };

/** @typedef {import("sluice/rules").RulesData} RulesData */

/** The endpoints of the rules, with a value for each parameter. */
export function endpointsOf(/** @type {Readonly<RulesData>} */ { rules }) {
  return rules.flatMap(({ name, match }) =>
    [match].flat().map((pattern) => {
      const [method = "", path = ""] = String(pattern).split(" ");
      return { rule: name, method, path: path.replace(/:\w+/g, "7") };
    }),
  );
}

/**
 * The number of requests of one caller that fit at once; Infinity if there is no limit.
 * @param {Readonly<RulesData>} data
 * @param {string} name
 * @param {string} plan
 */
export function expectedOf(data, name, plan) {
  const rule = data.rules.find((rule) => rule.name === name);
  if (!rule || rule.unlimited) return Number.POSITIVE_INFINITY;
  const preset = rule.preset ? presets[rule.preset] : {};
  const { budgets = [], weight = 1, action, mode } = { ...data.defaults, ...preset, ...rule };
  const own = { ...preset.limits, ...rule.limits };
  const counts = [];
  for (const [per, limits] of Object.entries(own)) {
    const isFlag = typeof action === "object" && action[per] === "flag";
    if (mode !== "shadow" && !isFlag) counts.push(...[limits].flat().map((limit) => fits(limit, plan, 1)));
  }
  for (const budget of budgets) {
    for (const limits of Object.values(data.budgets?.[budget] ?? {})) {
      counts.push(...[limits].flat().map((limit) => fits(limit, plan, weight)));
    }
  }
  return Math.min(...counts);
}

/**
 * How often a charge fits into a limit.
 * @param {any} limit
 * @param {string} plan
 * @param {number} weight
 */
function fits(limit, plan, weight) {
  const text = typeof limit === "object" ? limit[plan] : limit;
  if (text === "unlimited") return Number.POSITIVE_INFINITY;
  const [, count, burst, of] = /^(\d+)\/\w+(?: burst (\d+)| fixed| log| sliding)?(?: of (\w+))?$/.exec(text) ?? [];
  const amount = of ? FACTS[/** @type {keyof typeof FACTS} */ (of)] : weight;
  return Math.floor(Number(burst ?? count) / amount);
}
