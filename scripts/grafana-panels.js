/** The panels of the Grafana dashboards. scripts/make-grafana.js makes the dashboards of them. */

/** @typedef {(name: string) => string} LabelOf Returns the name of a label in Prometheus */
/** @typedef {{ expr: string, legend: string }} Query */
/** @typedef {{ title: string, description: string, type: "timeseries" | "stat", unit: string, queries: Query[], width: number, height: number, stack?: boolean, min?: number, max?: number, steps?: [string, number | null][], mappings?: object[] }} Panel */

/** The panels, row by row. @param {LabelOf} label @returns {Panel[]} */
export function panelsFor(label) {
  const [rule, outcome, policy, store] = ["rule", "outcome", "policy", "store"].map(label);
  const ofRule = `${rule}=~"$rule"`;
  const share = (/** @type {string} */ outcomes) =>
    `sum by (${rule}) (rate(sluice_requests_total{${ofRule},${outcome}=~"${outcomes}"}[$__rate_interval])) / sum by (${rule}) (rate(sluice_requests_total{${ofRule}}[$__rate_interval]))`;
  const latency = (/** @type {number} */ quantile) =>
    `histogram_quantile(${quantile}, sum by (le, ${store}) (rate(sluice_decision_duration_seconds_bucket[$__rate_interval])))`;
  return [
    {
      title: "Requests by outcome",
      description:
        "Requests per second that were checked. would-deny: a limit that is not enforced was exceeded. unavailable: the store failed and the rule fails closed.",
      type: "timeseries",
      unit: "reqps",
      stack: true,
      min: 0,
      width: 12,
      height: 8,
      queries: [
        {
          expr: `sum by (${outcome}) (rate(sluice_requests_total{${ofRule}}[$__rate_interval]))`,
          legend: `{{${outcome}}}`,
        },
      ],
    },
    {
      title: "Denied share by rule",
      description: "Share of requests that were rejected by a limit or a penalty, or challenged.",
      type: "timeseries",
      unit: "percentunit",
      min: 0,
      max: 1,
      width: 12,
      height: 8,
      queries: [{ expr: share("denied|blocked|challenged"), legend: `{{${rule}}}` }],
    },
    {
      title: "Store",
      description: "Whether the remote stores are available, in the worst process. Memory stores can't fail.",
      type: "stat",
      unit: "none",
      width: 4,
      height: 8,
      steps: [
        ["red", null],
        ["green", 1],
      ],
      mappings: [
        {
          type: "value",
          options: { 0: { text: "down", color: "red", index: 0 }, 1: { text: "up", color: "green", index: 1 } },
        },
      ],
      queries: [{ expr: `min by (${store}) (sluice_store_up)`, legend: `{{${store}}}` }],
    },
    {
      title: "Degraded decisions and store errors",
      description: "Decisions per second that were made without the store, and failed calls of the store by kind.",
      type: "timeseries",
      unit: "ops",
      min: 0,
      width: 8,
      height: 8,
      queries: [
        {
          expr: `sum by (${policy}) (rate(sluice_degraded_decisions_total[$__rate_interval]))`,
          legend: `degraded {{${policy}}}`,
        },
        {
          expr: `sum by (${store}, ${label("kind")}) (rate(sluice_store_errors_total[$__rate_interval]))`,
          legend: `{{${store}}} {{${label("kind")}}}`,
        },
      ],
    },
    {
      title: "Store latency",
      description: "How long calls of remote stores take, as the median and the 99th percentile.",
      type: "timeseries",
      unit: "s",
      min: 0,
      width: 12,
      height: 8,
      queries: [
        { expr: latency(0.5), legend: `{{${store}}} p50` },
        { expr: latency(0.99), legend: `{{${store}}} p99` },
      ],
    },
    {
      title: "Shadow rules: would deny",
      description: "Share of requests that a rule in shadow mode, or a limit with the action flag, would have denied.",
      type: "timeseries",
      unit: "percentunit",
      min: 0,
      width: 12,
      height: 8,
      queries: [{ expr: share("would-deny"), legend: `{{${rule}}}` }],
    },
    {
      title: "Most denied key",
      description:
        "Denials per second of the most denied key of each rule, in the worst process. The key is not named here: topKeys() of the observer has its tag.",
      type: "timeseries",
      unit: "reqps",
      min: 0,
      width: 12,
      height: 8,
      queries: [{ expr: `max by (${rule}) (sluice_top_key_denied_per_second{${ofRule}})`, legend: `{{${rule}}}` }],
    },
    {
      title: "Cost by policy",
      description:
        "Units per second that were allowed, such as AI tokens. Before refunds; held amounts count when they are settled.",
      type: "timeseries",
      unit: "short",
      min: 0,
      width: 12,
      height: 8,
      queries: [
        {
          expr: `sum by (${policy}) (rate(sluice_cost_total{${outcome}="allowed"}[$__rate_interval]))`,
          legend: `{{${policy}}}`,
        },
      ],
    },
    {
      title: "Memory stores: keys and evictions",
      description:
        "Keys in memory, and evictions per second of keys in use. An evicted key starts with a full budget, so raise maxKeys.",
      type: "timeseries",
      unit: "short",
      min: 0,
      width: 12,
      height: 8,
      queries: [
        { expr: `sum by (${store}) (sluice_memory_keys)`, legend: `keys {{${store}}}` },
        {
          expr: `sum by (${store}) (rate(sluice_memory_evictions_total[$__rate_interval]))`,
          legend: `evictions/s {{${store}}}`,
        },
      ],
    },
  ];
}
