/**
 * Draws docs/algorithms/*.svg: the requests that each algorithm admits. All five get the same requests, to compare them.
 * Run it after `npm run build`: node scripts/draw-algorithms.js
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { memoryRateLimiter } from "sluice";
import { fakeClock } from "sluice/testing";

/** @typedef {{ atMs: number; allowed: boolean; startMs: number }} Outcome */
/** @typedef {{ outcomes: Outcome[]; line: [number, number][] }} Run */
/** @typedef {{ policy: import("sluice").Policy; title: string; level: string; left?: true; aligned?: true }} Subject */

const LIMIT = 5;
/** Cost of a request. The limit is scaled alike: `remaining` then has steps of 1/1000, for a smooth line. */
const SCALE = 1000;
const SPAN_MS = 4000;

/** Two bursts around the start of a second, then a second at twice the rate, then three requests. */
const REQUESTS = [...every(30, 790, 970), ...every(30, 1030, 1210), ...every(90, 2000, 2990), 3600, 3700, 3800];

/** @type {Record<string, Subject>} */
const SUBJECTS = {
  "token-bucket": {
    policy: { capacity: LIMIT * SCALE, tokensPerSecond: 5 * SCALE },
    title: "Token bucket: holds 5, refilled at 5 per second",
    level: "tokens left",
    left: true,
  },
  "leaky-bucket": {
    policy: { algorithm: "leaky-bucket", capacity: LIMIT * SCALE, leaksPerSecond: 5 * SCALE },
    title: "Leaky bucket: a queue of 5, drained at 5 per second",
    level: "in the queue",
  },
  "fixed-window": {
    policy: { algorithm: "fixed-window", limit: LIMIT * SCALE, windowMs: 1000 },
    title: "Fixed window: 5 in every clock second",
    level: "in use",
    aligned: true,
  },
  "sliding-window": {
    policy: { algorithm: "sliding-window", limit: LIMIT * SCALE, windowMs: 1000 },
    title: "Sliding window: 5 per second, the previous window fades",
    level: "in use",
    aligned: true,
  },
  "sliding-log": {
    policy: { algorithm: "sliding-log", limit: LIMIT * SCALE, windowMs: 1000 },
    title: "Sliding log: 5 in any one second",
    level: "in use",
  },
};

const COLOUR = {
  admitted: "#1a63c7",
  denied: "#c8500a",
  line: "#3f4a56",
  text: "#1c2128",
  faint: "#5c6773",
  rule: "#d5dbe1",
  paper: "#ffffff",
};
const WIDTH = 760;
const LEFT = 138;
const RIGHT = WIDTH - 24;

/** Returns every picture by file name. The output is the same on every machine. */
export function drawAlgorithms() {
  const runs = Object.entries(SUBJECTS).map(([name, subject]) => ({ name, subject, run: simulate(subject) }));
  return new Map([
    ...runs.map(({ name, subject, run }) => /** @type {const} */ ([`${name}.svg`, drawOne(subject, run)])),
    ["overview.svg", drawOverview(runs)],
  ]);
}

/** Sends the requests to a real limiter and records its level every millisecond. */
function simulate(/** @type {Subject} */ { policy, left }) {
  const clock = fakeClock();
  const limiter = memoryRateLimiter(policy, { clock });
  /** @type {Run} */
  const run = { outcomes: [], line: [] };
  for (let now = 0; now <= SPAN_MS; now++) {
    recordLevel(now);
    if (REQUESTS.includes(now)) {
      const { allowed, delayMs = 0 } = limiter.consumeSync("user:42", SCALE);
      run.outcomes.push({ atMs: now, allowed, startMs: now + delayMs });
      recordLevel(now);
    }
    clock.advance(1);
  }
  return run;

  function recordLevel(/** @type {number} */ now) {
    const remaining = limiter.consumeSync("user:42", 0).remaining / SCALE;
    run.line.push([now, left ? remaining : LIMIT - remaining]);
  }
}

function drawOne(/** @type {Subject} */ { policy, title, level, aligned }, /** @type {Run} */ run) {
  const queue = policy.algorithm === "leaky-bucket";
  const admitted = run.outcomes.filter(({ allowed }) => allowed);
  const denied = run.outcomes.filter(({ allowed }) => !allowed);
  const totals = [
    `${admitted.length} admitted, ${denied.length} denied.`,
    `Maximum admitted within one second: ${maxPerSecond(admitted)}.`,
  ];
  const starts = admitted.map(({ startMs }) => startMs).filter((at) => at <= SPAN_MS);
  const rows = queue ? 3 : 2;
  const chartTop = 84 + rows * 36 + 14;
  const chartBottom = chartTop + 110;
  const height = chartBottom + 44;
  const y = (/** @type {number} */ value) => round(chartBottom - (value / LIMIT) * (chartBottom - chartTop));
  const path = corners(run.line).map(([at, value], i) => `${i === 0 ? "M" : "L"}${x(at)} ${y(value)}`);
  return svg(height, title, describeRun(admitted, denied), [
    text(24, 34, title, { size: 18, weight: 600 }),
    text(24, 60, [...totals, ...(aligned ? ["Upright lines: edges of windows."] : [])].join(" "), {
      colour: COLOUR.faint,
    }),
    timeAxis(76, chartBottom, aligned === true),
    row(
      84,
      "admitted",
      admitted.map(({ atMs }) => atMs),
      COLOUR.admitted,
    ),
    row(
      120,
      "denied",
      denied.map(({ atMs }) => atMs),
      COLOUR.denied,
    ),
    ...(queue ? [row(156, "goes ahead", starts, COLOUR.admitted, true)] : []),
    text(LEFT - 14, y(LIMIT) + 5, String(LIMIT), { anchor: "end", colour: COLOUR.faint }),
    text(LEFT - 14, y(0) + 5, "0", { anchor: "end", colour: COLOUR.faint }),
    text(24, (chartTop + chartBottom) / 2 + 5, level, {}),
    `<path d="M${LEFT} ${y(LIMIT)}H${RIGHT}M${LEFT} ${y(0)}H${RIGHT}" stroke="${COLOUR.rule}" fill="none"/>`,
    `<path d="${path.join("")}" stroke="${COLOUR.line}" stroke-width="2" stroke-linejoin="round" fill="none"/>`,
  ]);
}

function drawOverview(/** @type {{ name: string; subject: Subject; run: Run }[]} */ runs) {
  const top = 92;
  const step = 62;
  const bottom = top + runs.length * step;
  const title = "The same requests, five algorithms with 5 per second";
  return svg(
    bottom + 44,
    title,
    "Each row shows which requests an algorithm admits (upper, blue) and which it denies (lower, orange).",
    [
      text(24, 34, title, { size: 18, weight: 600 }),
      ...key(24, 60, COLOUR.admitted, "admitted"),
      ...key(124, 60, COLOUR.denied, "denied"),
      timeAxis(76, bottom, true),
      ...runs.flatMap(({ name, run }, i) => {
        const y = top + i * step;
        const admitted = run.outcomes.filter(({ allowed }) => allowed);
        const denied = run.outcomes.filter(({ allowed }) => !allowed);
        return [
          text(24, y + 27, name, {}),
          bars(
            y,
            admitted.map(({ atMs }) => atMs),
            COLOUR.admitted,
          ),
          bars(
            y + 26,
            denied.map(({ atMs }) => atMs),
            COLOUR.denied,
          ),
          ...(i > 0 ? [`<path d="M24 ${y - 8}H${RIGHT}" stroke="${COLOUR.rule}"/>`] : []),
        ];
      }),
    ],
  );
}

function describeRun(/** @type {Outcome[]} */ admitted, /** @type {Outcome[]} */ denied) {
  const list = (/** @type {Outcome[]} */ outcomes) => outcomes.map(({ atMs }) => atMs).join(", ");
  return `Admitted at ${list(admitted)} ms. Denied at ${list(denied)} ms.`;
}

/** The maximum number admitted within any second. */
function maxPerSecond(/** @type {Outcome[]} */ admitted) {
  return Math.max(
    ...admitted.map((first) => admitted.filter(({ atMs }) => atMs >= first.atMs && atMs < first.atMs + 1000).length),
  );
}

/** The points at which the slope of a line changes. */
function corners(/** @type {[number, number][]} */ line) {
  return line.filter(([at, value], i) => {
    const [before, after] = [line[i - 1], line[i + 1]];
    if (!before || !after || before[0] === at || after[0] === at) return true;
    return Math.abs((value - before[1]) / (at - before[0]) - (after[1] - value) / (after[0] - at)) > 1e-9;
  });
}

function timeAxis(/** @type {number} */ top, /** @type {number} */ bottom, /** @type {boolean} */ aligned) {
  const parts = [];
  for (let at = 0; at <= SPAN_MS; at += 1000) {
    const dash = aligned ? "" : ' stroke-dasharray="2 5"';
    parts.push(`<path d="M${x(at)} ${top}V${bottom + 6}" stroke="${aligned ? "#aab4be" : COLOUR.rule}"${dash}/>`);
    parts.push(text(x(at), bottom + 26, `${at / 1000} s`, { anchor: "middle", colour: COLOUR.faint }));
  }
  return parts.join("\n");
}

function row(
  /** @type {number} */ top,
  /** @type {string} */ label,
  /** @type {number[]} */ times,
  /** @type {string} */ colour,
  hollow = false,
) {
  return `${text(24, top + 20, label, { colour })}\n${bars(top + 4, times, colour, hollow)}`;
}

function bars(/** @type {number} */ top, /** @type {number[]} */ times, /** @type {string} */ colour, hollow = false) {
  const look = hollow ? `fill="none" stroke="${colour}" stroke-width="1.3"` : `fill="${colour}"`;
  return `<g ${look}>${times.map((at) => `<rect x="${round(x(at) - 1.6)}" y="${top}" width="3.2" height="22" rx="1"/>`).join("")}</g>`;
}

function key(
  /** @type {number} */ left,
  /** @type {number} */ base,
  /** @type {string} */ colour,
  /** @type {string} */ label,
) {
  return [
    `<rect x="${left}" y="${base - 14}" width="4" height="17" rx="1" fill="${colour}"/>`,
    text(left + 12, base, label, { colour }),
  ];
}

/**
 * @param {number} left
 * @param {number} base
 * @param {string} words
 * @param {{ size?: number; weight?: number; anchor?: string; colour?: string }} look
 */
function text(left, base, words, { size = 14, weight, anchor, colour = COLOUR.text }) {
  const more = `${weight ? ` font-weight="${weight}"` : ""}${anchor ? ` text-anchor="${anchor}"` : ""}`;
  return `<text x="${left}" y="${base}" font-size="${size}" fill="${colour}"${more}>${words}</text>`;
}

function svg(
  /** @type {number} */ height,
  /** @type {string} */ title,
  /** @type {string} */ description,
  /** @type {string[]} */ parts,
) {
  return `<!-- Generated by scripts/draw-algorithms.js; do not edit. -->
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif">
<title>${title}</title>
<desc>${description}</desc>
<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8" fill="${COLOUR.paper}" stroke="${COLOUR.rule}"/>
${parts.join("\n")}
</svg>
`;
}

function x(/** @type {number} */ atMs) {
  return round(LEFT + (atMs / SPAN_MS) * (RIGHT - LEFT));
}

function round(/** @type {number} */ value) {
  return Math.round(value * 10) / 10;
}

function every(/** @type {number} */ gap, /** @type {number} */ first, /** @type {number} */ last) {
  return Array.from({ length: Math.floor((last - first) / gap) + 1 }, (_, i) => first + i * gap);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [file, picture] of drawAlgorithms())
    writeFileSync(new URL(`../docs/algorithms/${file}`, import.meta.url), picture);
}
