/**
 * A stand-in for Cloudflare Turnstile, so that this example needs no account: its widget, its frame and its siteverify. It
 * issues a token for a click, so it stops nobody. It verifies a token once, within 5 minutes, and reports where it was solved.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import express from "express";
import { turnstile } from "sluice/abuse";

const MAX_AGE_MS = 300_000;

/** Starts the stand-in on loopback, and returns a provider that uses it. */
export async function startTurnstileStandIn() {
  const [siteKey, secret] = ["stand-in-site-key", randomBytes(16).toString("hex")];
  /** @type {Map<string, { hostname: string; action: string; solvedAt: number; isUsed: boolean }>} */
  const tokens = new Map();
  const app = express();
  app.get("/api.js", (_request, response) => void response.type("js").send(script(origin)));
  app.get("/frame", (_request, response) => void response.send(FRAME));
  // Only its own frame, which is on this origin, can read the response.
  app.post("/token", express.json(), (request, response) => {
    const token = randomBytes(24).toString("base64url");
    const { hostname, action } = request.body;
    tokens.set(token, { hostname, action, solvedAt: Date.now(), isUsed: false });
    response.json({ token });
  });
  app.post("/siteverify", express.urlencoded({ extended: false }), (request, response) => {
    const refuse = (/** @type {string} */ code) => response.json({ success: false, "error-codes": [code] });
    if (request.body.secret !== secret) return void refuse("invalid-input-secret");
    const token = tokens.get(request.body.response);
    if (!token) return void refuse("invalid-input-response");
    const { hostname, action, solvedAt, isUsed } = token;
    token.isUsed = true;
    if (isUsed || Date.now() - solvedAt > MAX_AGE_MS) return void refuse("timeout-or-duplicate");
    // sluice compares hostname and action with those that it expects.
    const solved = new Date(solvedAt).toISOString();
    response.json({ success: true, "error-codes": [], challenge_ts: solved, hostname, action });
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const origin = `http://127.0.0.1:${port}`;
  return {
    provider: {
      ...turnstile({ siteKey, secret, url: `${origin}/siteverify` }),
      scriptUrl: `${origin}/api.js`,
      frameOrigin: origin,
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The widget script. Like Turnstile's, it defines `turnstile`, and calls the function that `?onload=` names. */
const script = (/** @type {string} */ origin) => `
(() => {
  const { src } = document.currentScript;
  const frames = new Map();
  window.turnstile = {
    render(box, options) {
      const frame = document.createElement("iframe");
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      frame.src = "${origin}/frame?" + new URLSearchParams({ action: options.action, theme: dark ? "dark" : "light" });
      Object.assign(frame, { title: "Check that you are human", width: options.size === "flexible" ? "100%" : 300, height: 65 });
      Object.assign(frame.style, { display: "block", border: 0, minWidth: "300px" });
      addEventListener("message", ({ source, origin, data }) => {
        if (source === frame.contentWindow && origin === "${origin}") options.callback(data.token);
      });
      box.append(frame);
      const id = String(frames.size);
      frames.set(id, frame);
      return id;
    },
    remove: (id) => frames.get(id)?.remove(),
  };
  window[new URL(src).searchParams.get("onload")]?.();
})();
`;

const FRAME = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Stand-in for Turnstile</title>
<style>
:root { color-scheme: light; --card: #fafafa; --text: #232323; --line: #d6d6d6; --soft: #5c5c5c }
.dark { color-scheme: dark; --card: #232323; --text: #fafafa; --line: #4a4a4a; --soft: #b0b0b0 }
body { margin: 0; background: var(--card); color: var(--text); font: 14px system-ui, sans-serif }
main { box-sizing: border-box; display: flex; align-items: center; justify-content: space-between; height: 65px; padding: 0 14px; border: 1px solid var(--line) }
label { display: flex; align-items: center; gap: 12px }
input { width: 24px; height: 24px; margin: 0 }
small { color: var(--soft) }
</style>
</head>
<body>
<main><label><input type="checkbox"> I am human</label><small>Stand-in</small></main>
<script>
const query = new URLSearchParams(location.search);
const page = new URL(document.referrer);
document.documentElement.className = query.get("theme");
document.querySelector("input").onchange = async () => {
  const body = JSON.stringify({ hostname: page.hostname, action: query.get("action") });
  const reply = await fetch("/token", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  parent.postMessage(await reply.json(), page.origin);
};
</script>
</body>
</html>
`;
