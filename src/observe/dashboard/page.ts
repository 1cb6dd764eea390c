/** The HTML of the dashboard. It contains no data: the script adds that as text. */

/** The logo, as in docs/brand/logo.svg. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><clipPath id="t"><rect width="64" height="64" rx="14"/></clipPath><g clip-path="url(#t)"><path fill="#0b4f7d" d="M0 0h64v64H0z"/><path fill="#4cc3f7" d="M0 20h32v24c10 0 10 8 19 8h13v12H0z"/><rect fill="#fff" x="24" y="8" width="12" height="36" rx="2"/></g></svg>`;

const SERIES = [
  ["allowed", "Allowed"],
  ["denied", "Denied"],
  ["wouldDeny", "Would deny"],
  ["degraded", "Degraded"],
] as const;

/** Renders the page. `prefix` is what its relative URLs start with, as it is in the address of the request. */
export function renderPage(prefix: string): string {
  const at = prefix.replace(/[&"<>]/g, (character) => `&#${character.charCodeAt(0)};`);
  // Not outside of the function: bundlers would keep them where the page is not used.
  const legend = SERIES.map(([id, label]) => `<li><i class="key ${id}"></i>${label} <b id="sum-${id}">0</b></li>`);
  const areas = SERIES.map(([id]) => `<path class="${id}" id="area-${id}"/>`);
  const minutes = SERIES.map(([, label]) => `<th scope="col">${label}</th>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice dashboard</title>
<link rel="icon" href="${at}icon.svg">
<link rel="stylesheet" href="${at}app.css">
<script type="module" src="${at}app.js"></script>
</head>
<body>
<header>
<img src="${at}icon.svg" alt="" width="36" height="36">
<div><h1>sluice</h1><p id="process">This process only</p></div>
<p id="status" role="status" data-state="wait">Connecting…</p>
</header>
<main>
<noscript>This page needs JavaScript.</noscript>
<section aria-labelledby="h-health">
<div class="title"><h2 id="h-health">Health</h2><p id="summary"></p></div>
<dl id="health">
<div id="t-stores"><dt>Stores</dt><dd>–</dd></div>
<div id="t-latency"><dt>Store latency</dt><dd>–</dd></div>
<div id="t-degraded"><dt>Degraded decisions</dt><dd>–</dd></div>
<div id="t-rules"><dt>Rules</dt><dd>–</dd></div>
</dl>
</section>
<section class="card" aria-labelledby="h-chart">
<div class="title"><h2 id="h-chart">Last 15 minutes</h2><p id="totals"></p></div>
<ul class="legend">${legend.join("")}</ul>
<div class="plot" id="plot"><span id="y-max"></span><span id="y-half"></span><span id="none" aria-hidden="true"></span>
<svg id="chart" viewBox="0 0 180 100" preserveAspectRatio="none" role="img" aria-label="Chart"><path class="grid" d="M0 .5h180M0 50h180"/>${areas.join("")}<path class="cursor" id="cursor"/></svg></div>
<p class="axis" aria-hidden="true"><span>15 min ago</span><span>10 min</span><span>5 min</span><span>now</span></p>
<p id="readout">Degraded overlaps the others. Denied includes blocked, challenged and unavailable.</p>
<details id="minutes"><summary>Show as a table</summary><div class="scroll" tabindex="0" role="group" aria-label="Table of the last 15 minutes"><table><caption>Requests by minute</caption><thead><tr><th scope="col">Minute</th>${minutes.join("")}</tr></thead><tbody></tbody></table></div></details>
</section>
<div class="pair wide">
<section class="card" aria-labelledby="h-rules">
<div class="title"><h2 id="h-rules">Rules by denials</h2><p id="rules-note"></p></div>
<table id="rules" class="stack"><caption>Rules of the last 15 minutes, most denials first</caption><thead><tr><th scope="col">Rule</th><th scope="col">Per second</th><th scope="col">Denied</th><th scope="col">Median left</th><th scope="col">Trend</th></tr></thead><tbody></tbody></table>
<p class="empty" id="rules-empty">No requests yet.</p>
</section>
<section class="card" aria-labelledby="h-keys">
<div class="title"><h2 id="h-keys">Most denied keys</h2></div>
<table id="keys"><caption>Tags of the most denied keys, last 5 to 10 minutes</caption><thead><tr><th scope="col">Tag</th><th scope="col">Rule</th><th scope="col">At least</th><th scope="col">Since</th></tr></thead><tbody></tbody></table>
<p class="empty" id="keys-empty">No denials in the last 10 minutes.</p>
</section>
</div>
<div class="pair">
<section class="card" aria-labelledby="h-look">
<div class="title"><h2 id="h-look">Look up a key</h2></div>
<form id="look"><label for="key">IP address, user, API key holder, or a key as your code passes it</label><div><input id="key" name="key" required maxlength="512" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="203.0.113.7"><button>Look up</button></div></form>
<div id="found" aria-live="polite"><p class="empty">The key is not stored, and not written to a log.</p></div>
</section>
<section class="card" aria-labelledby="h-shadow">
<div class="title"><h2 id="h-shadow">Shadow rules</h2></div>
<ul id="shadow"></ul>
<p class="empty" id="shadow-empty">No rule is in shadow mode.</p>
</section>
</div>
<section class="card" aria-labelledby="h-events">
<div class="title"><h2 id="h-events">Events</h2><p id="events-note"></p></div>
<div class="scroll" tabindex="0" role="group" aria-label="List of events"><ol id="events"></ol></div>
<p class="empty" id="events-empty">No changes of state since the process started.</p>
</section>
</main>
<footer><p>This page shows one process. For several, use Prometheus or OpenTelemetry. Keys are shown as tags of 8 digits.</p></footer>
</body>
</html>
`;
}
