/** The challenge page: its HTML and its Content-Security-Policy. */
import type { ChallengeMessages } from "./messages.ts";
import { SCRIPT, STYLE } from "./page-assets.ts";
import type { ChallengeProvider, ChallengeWidget } from "./provider.ts";

/** What a challenge page is made from. Escape every value: `rule` and `messages` come from your configuration. */
export interface ChallengeContext {
  /** Value of the `nonce` attribute that every `<script>` and `<style>` of the page needs. */
  readonly nonce: string;
  /** Name of the provider. */
  readonly provider: string;
  /** The public key of your site at the provider. */
  readonly siteKey: string;
  /** URL of the widget script, without `onload`. */
  readonly scriptUrl: string;
  /** How to render the provider's widget. */
  readonly widget: ChallengeWidget;
  /** The action to make the token for. */
  readonly action: string;
  /** Path to POST the token to, as JSON (`{ "token": "..." }`) or as a URL-encoded form field. 204 if it is accepted. */
  readonly path: string;
  /** Form field that has the token. */
  readonly tokenField: string;
  /** Name of the rule whose limit was exceeded. */
  readonly rule: string;
  /** Whether the request was a submitted form. Its body is not kept, so the person has to submit it again. */
  readonly isForm: boolean;
  /** The texts of the page. */
  readonly messages: ChallengeMessages;
  /** Language of the messages. */
  readonly lang: string;
}

/** Returns the page's Content-Security-Policy. Browsers that support `'strict-dynamic'` ignore the origins of scripts. */
export function pagePolicy({ scriptUrl, frameOrigin, csp = {} }: ChallengeProvider, nonce: string): string {
  const directives: Record<string, readonly string[]> = {
    "default-src": ["'none'"],
    "script-src": [`'nonce-${nonce}'`, "'strict-dynamic'", new URL(scriptUrl).origin],
    // Browsers ignore 'unsafe-inline' beside a nonce.
    "style-src": csp["style-src"]?.includes("'unsafe-inline'") ? [] : [`'nonce-${nonce}'`],
    "frame-src": [frameOrigin],
    "connect-src": ["'self'"],
    "img-src": [],
    "form-action": ["'self'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'none'"],
  };
  return Object.entries(directives)
    .map(([name, sources]) => [name, ...new Set([...sources, ...(csp[name] ?? [])])])
    .filter((directive) => directive.length > 1)
    .map((directive) => directive.join(" "))
    .join("; ");
}

/** Returns the built-in page. */
export function renderChallengePage(context: ChallengeContext): string {
  const { nonce, messages, lang, isForm } = context;
  const text = (name: keyof ChallengeMessages): string => escapeHtml(messages[name]);
  const direction = /^(?:ar|fa|he|ur)\b/i.test(lang) ? ' dir="rtl"' : "";
  return `<!doctype html>
<html lang="${escapeHtml(lang)}"${direction}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${text("title")}</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<main>
<p id="host"></p>
<h1>${text("title")}</h1>
<p>${text(isForm ? "formIntro" : "intro")}</p>
<div id="widget" tabindex="-1"></div>
<noscript><p class="note">${text("noScript")}</p></noscript>
<p id="status" role="status"></p>
<button id="retry" type="button" hidden>${text("retry")}</button>
<button id="back" type="button" hidden>${text("goBack")}</button>
</main>
<script nonce="${nonce}">(${SCRIPT})(${scriptData(context)})</script>
</body>
</html>
`;
}

/** What the script needs, as JSON that can't end the script element. */
function scriptData(context: ChallengeContext): string {
  const { nonce, siteKey, scriptUrl, widget, action, path, isForm, lang } = context;
  const { checking, solved, formSolved, failed, unavailable, busy, notKept } = context.messages;
  const messages = { checking, solved, formSolved, failed, unavailable, busy, notKept };
  const data = { nonce, siteKey, scriptUrl, widget, action, path, isForm, lang, messages };
  return JSON.stringify(data).replaceAll("<", "\\u003c");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string);
}
