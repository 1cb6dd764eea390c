/**
 * A stand-in for Turnstile, hCaptcha and reCAPTCHA on loopback: it verifies the tokens that it issued, with the fields and
 * error codes of the provider, and serves a widget for browsers.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

/** @typedef {"turnstile" | "hcaptcha" | "recaptcha"} ProviderName */

/**
 * @typedef {object} TokenOptions
 * @property {string} [hostname] where it was solved. Default: "localhost"
 * @property {string} [action] what it was solved for. Default: "sluice"
 * @property {string} [siteKey] the widget's key. Default: that of the stand-in
 * @property {number} [ageMs] how long ago it was solved. Default: 0
 * @property {boolean} [isLenient] verify it although it is old. Default: false
 * @property {number} [score] the score of reCAPTCHA v3. Default: none
 * @property {Record<string, unknown>} [fields] fields of the reply that replace others; `undefined` removes one
 */

/**
 * @typedef {object} RecordedRequest
 * @property {string} method
 * @property {string} url
 * @property {string[]} headers names and values
 * @property {URLSearchParams} fields the form fields of the body
 * @property {string} body
 */

/** @typedef {"verify" | "fail" | "hang" | "garbage" | "huge" | "redirect" | "internal-error" | "reset" | "trickle"} Behaviour */

/** What differs between the providers. */
const PROVIDERS = {
  turnstile: {
    object: "turnstile",
    maxAgeMs: 300_000,
    reused: "timeout-or-duplicate",
    old: "timeout-or-duplicate",
    /** @type {(token: Required<Pick<TokenOptions, "action">> & TokenOptions) => Record<string, unknown>} */
    fields: ({ action }) => ({ action, cdata: "", metadata: { interactive: true } }),
  },
  hcaptcha: {
    object: "hcaptcha",
    maxAgeMs: 120_000,
    reused: "already-seen-response",
    old: "expired-input-response",
    fields: () => ({ credit: false }),
  },
  recaptcha: {
    object: "grecaptcha",
    maxAgeMs: 120_000,
    reused: "timeout-or-duplicate",
    old: "timeout-or-duplicate",
    /** @type {(token: Required<Pick<TokenOptions, "action">> & TokenOptions) => Record<string, unknown>} */
    fields: ({ action, score }) => (score === undefined ? {} : { action, score }),
  },
};

/** @typedef {Awaited<ReturnType<typeof startSiteverify>>} SiteverifyServer */

/**
 * Starts the stand-in.
 * @param {{ provider?: ProviderName; secret: string; siteKey?: string }} options
 */
export async function startSiteverify({ provider = "turnstile", secret, siteKey = "site-key" }) {
  const { object, maxAgeMs, reused, old, fields } = PROVIDERS[provider];
  /** @type {Map<string, Required<Pick<TokenOptions, "hostname" | "action" | "siteKey">> & TokenOptions & { issuedAt: number; used: boolean }>} */
  const tokens = new Map();
  /** @type {RecordedRequest[]} */
  const requests = [];
  /** @type {Behaviour} */
  let behaviour = "verify";
  let hasWidget = true;

  function issue(/** @type {TokenOptions} */ options = {}) {
    const token = `T1_${randomBytes(24).toString("base64url")}`;
    const { hostname = "localhost", action = "sluice" } = options;
    tokens.set(token, {
      siteKey,
      ...options,
      hostname,
      action,
      issuedAt: Date.now() - (options.ageMs ?? 0),
      used: false,
    });
    return token;
  }

  function verify(/** @type {URLSearchParams} */ form) {
    const refused = (/** @type {string} */ code) => ({ success: false, "error-codes": [code] });
    if (!form.get("secret")) return refused("missing-input-secret");
    if (form.get("secret") !== secret) return refused("invalid-input-secret");
    if (!form.get("response")) return refused("missing-input-response");
    const token = tokens.get(form.get("response") ?? "");
    if (!token) return refused("invalid-input-response");
    if (form.has("sitekey") && form.get("sitekey") !== token.siteKey) return refused("sitekey-secret-mismatch");
    if (token.used) return refused(reused);
    token.used = true;
    if (!token.isLenient && Date.now() - token.issuedAt > maxAgeMs) return refused(old);
    return {
      success: true,
      "error-codes": [],
      challenge_ts: new Date(token.issuedAt).toISOString(),
      hostname: token.hostname,
      ...fields(token),
      ...token.fields,
    };
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://stand-in");
    /** @param {string} type @param {string} text */
    const send = (type, text, status = 200) => {
      response.writeHead(status, { "Content-Type": `${type}; charset=utf-8`, "Cache-Control": "no-store" }).end(text);
    };
    if (request.method === "GET" && url.pathname === "/api.js") {
      if (hasWidget) return send("text/javascript", widgetScript(object, origin));
      return send("text/plain", "unavailable", 503);
    }
    if (request.method === "GET" && url.pathname === "/frame") return send("text/html", FRAME);
    if (request.method === "POST" && url.pathname === "/frame-token") {
      const { hostname, action } = Object.fromEntries(url.searchParams);
      const score = url.searchParams.has("auto") ? { score: 0.9 } : {};
      return send("text/plain", issue({ hostname: hostname ?? "", action: action ?? "", ...score }));
    }
    let body = "";
    for await (const chunk of request) body += chunk;
    const form = new URLSearchParams(body);
    requests.push({
      method: request.method ?? "",
      url: request.url ?? "",
      headers: request.rawHeaders,
      fields: form,
      body,
    });
    switch (behaviour) {
      case "fail":
        return send("text/html", `<h1>500</h1>${body}`, 500);
      case "hang":
        return;
      case "trickle":
        return response.writeHead(200).write(" ");
      case "garbage":
        // Quotes the request, as a proxy's error page might.
        return send("application/json", `${body} is not JSON`);
      case "huge":
        return send("application/json", JSON.stringify({ ...verify(form), padding: "x".repeat(100_000) }));
      case "redirect":
        return response.writeHead(307, { Location: `${origin}/elsewhere` }).end();
      case "internal-error":
        return send("application/json", JSON.stringify({ success: false, "error-codes": ["internal-error"] }));
      case "reset":
        return request.socket.destroy();
      default:
        return send("application/json", JSON.stringify(verify(form)));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const origin = `http://127.0.0.1:${port}`;
  return {
    origin,
    /** The option `url` of a provider. */
    url: `${origin}/siteverify`,
    /** Members of a provider that make its page use the widget of the stand-in. */
    page: { scriptUrl: `${origin}/api.js?render=explicit`, frameOrigin: origin },
    /** Every request to `url`, oldest first. */
    requests,
    /** Issues a token that can be verified once. */
    issue,
    behave(/** @type {Behaviour} */ next) {
      behaviour = next;
    },
    /** Makes the widget script unavailable, or available again. */
    setWidget(/** @type {boolean} */ available) {
      hasWidget = available;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The widget: a frame with a checkbox. `execute` of reCAPTCHA v3 needs no interaction. */
function widgetScript(/** @type {string} */ object, /** @type {string} */ origin) {
  return `(() => {
  const origin = ${JSON.stringify(origin)};
  const query = (options) => new URLSearchParams({ hostname: location.hostname, action: options.action ?? "" });
  const widget = {
    ready: (callback) => callback(),
    execute: (key, options) =>
      new Promise((resolve) => {
        const container = document.createElement("div");
        container.hidden = true;
        document.body.append(container);
        widget.render(container, { ...options, callback: resolve }, "&auto=1");
      }),
    render(container, options, more = "") {
      const frame = document.createElement("iframe");
      frame.title = "Widget of the stand-in";
      frame.src = origin + "/frame?theme=" + options.theme + "&" + query(options) + more;
      frame.width = options.size === "compact" ? 150 : 300;
      frame.height = options.size === "compact" ? 140 : 65;
      frame.style.border = "0";
      addEventListener("message", (event) => {
        if (event.origin !== origin || event.source !== frame.contentWindow) return;
        if (event.data.token) options.callback(event.data.token);
        else options["error-callback"]?.("stand-in");
      });
      container.append(frame);
    },
  };
  window[${JSON.stringify(object)}] = widget;
  const onload = new URL(document.currentScript.src).searchParams.get("onload");
  if (onload) window[onload]();
})();
`;
}

const FRAME = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Stand-in</title>
<style>
:root{--bg:#fafafa;--fg:#232323;--line:#999}
.dark{--bg:#232323;--fg:#fafafa;--line:#777}
html{color-scheme:light dark}
body{margin:0;background:var(--bg);color:var(--fg);font:14px system-ui,sans-serif}
main{box-sizing:border-box;height:100vh;border:1px solid var(--line);display:flex;align-items:center;padding:0 16px}
label{display:flex;align-items:center;gap:12px;font-size:14px}input{width:24px;height:24px;margin:0}
</style></head>
<body><main><label><input type="checkbox"> I am human</label></main>
<script>
if (location.search.includes("theme=dark")) document.documentElement.className = "dark";
document.querySelector("input").addEventListener("change", solve);
if (location.search.includes("auto=1")) solve();
async function solve() {
  const reply = await fetch("/frame-token" + location.search, { method: "POST" });
  parent.postMessage(reply.ok ? { token: await reply.text() } : {}, "*");
}
</script></body></html>
`;
