/** The challenge page: its HTML and its Content-Security-Policy. */
import type { ChallengeMessages } from "./messages.ts";
import type { ChallengeProvider, ChallengeWidget } from "./provider.ts";

/** What a challenge page is made from. Escape every value: `rule` and `messages` come from your configuration. */
export interface ChallengeContext {
  /** Value of the `nonce` attribute that every `<script>` and `<style>` of the page needs. */
  readonly nonce: string;
  /** Name of the provider. */
  readonly provider: string;
  readonly siteKey: string;
  /** URL of the widget script, without `onload`. */
  readonly scriptUrl: string;
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
<div id="widget"></div>
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

const STYLE = `
:root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--text:#1c2024;--soft:#5b6470;--line:#dfe3e8;--accent:#0b5bd3;--on:#fff}
@media(prefers-color-scheme:dark){:root{--page:#111418;--card:#1a1f25;--text:#eceff2;--soft:#a3adb8;--line:#313943;--accent:#8ab8ff;--on:#0c1116}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.25rem .75rem;background:var(--page);color:var(--text);font:1rem/1.55 system-ui,sans-serif}
main{width:100%;max-width:27rem;padding:2rem 1.5rem;background:var(--card);border:1px solid var(--line);border-radius:.75rem;overflow-wrap:anywhere}
h1{margin:0 0 .75rem;font-size:1.375rem;line-height:1.3}
p{margin:0 0 1.25rem}
#host{margin:0 0 .375rem;color:var(--soft);font-size:.875rem}
#widget{min-height:0}
#widget>div{min-height:4.25rem}
#status,.note{margin:.75rem 0 0}
#host:empty,#status:empty{margin:0}
button{margin:1rem 0 0;padding:.625rem 1.125rem;border:0;border-radius:.5rem;background:var(--accent);color:var(--on);font:inherit;font-weight:600;cursor:pointer}
button:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
[hidden]{display:none}
`;

/** Runs in the browser. Solving reloads the page, unless it was the response to a form. */
const SCRIPT = `(c)=>{
const $=(id)=>document.getElementById(id),m=c.messages,KEY="sluice-challenge",WAIT=20000
let timer
const show=(text,button)=>{$("status").textContent=text;$("retry").hidden=button!=="retry";$("back").hidden=button!=="back"}
const fail=(text)=>{clearTimeout(timer);show(text,"retry");return true}
const remember=()=>{try{sessionStorage.setItem(KEY,Date.now())}catch{}}
const solvedMsAgo=()=>{try{return Date.now()-Number(sessionStorage.getItem(KEY))}catch{return Infinity}}
const post=async(token)=>{
clearTimeout(timer);show(m.checking)
let status=0
try{({status}=await fetch(c.path,{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify({token})}))}catch{}
if(status!==204)return fail(status===403?m.failed:m.busy)
$("widget").replaceChildren()
if(c.isForm)return show(m.formSolved,"back")
remember();show(m.solved);location.reload()
}
const ready=()=>{
clearTimeout(timer);show("")
const w=window[c.widget.object],unavailable=()=>fail(m.unavailable)
if(c.widget.execute)return w.ready(()=>w.execute(c.siteKey,{action:c.action}).then(post,unavailable))
const box=document.createElement("div")
$("widget").replaceChildren(box)
w.render(box,{sitekey:c.siteKey,action:c.action,callback:post,"error-callback":unavailable,"unsupported-callback":unavailable,
theme:matchMedia("(prefers-color-scheme:dark)").matches?"dark":"light",language:c.lang,hl:c.lang})
}
const start=()=>{
show("")
if(window[c.widget.object])return ready()
timer=setTimeout(()=>fail(m.unavailable),WAIT)
const s=document.createElement("script"),url=new URL(c.scriptUrl)
url.searchParams.set("onload","sluiceReady")
s.src=url;s.nonce=c.nonce;s.onerror=()=>fail(m.unavailable)
document.head.append(s)
}
window.sluiceReady=ready
$("host").textContent=location.hostname
$("retry").onclick=start
$("back").onclick=()=>history.back()
if(solvedMsAgo()<15000)fail(m.notKept);else start()
}`;

/** JSON that can't end the script element. */
function scriptData({
  nonce,
  siteKey,
  scriptUrl,
  widget,
  action,
  path,
  isForm,
  lang,
  messages,
}: ChallengeContext): string {
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
