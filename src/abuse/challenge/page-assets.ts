/** Style and script of the challenge page, which run in browsers. */

export const STYLE: string = `
:root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--text:#1c2024;--soft:#5b6470;--line:#dfe3e8;--accent:#0b5bd3;--on:#fff}
@media(prefers-color-scheme:dark){:root{--page:#111418;--card:#1a1f25;--text:#eceff2;--soft:#a3adb8;--line:#313943;--accent:#8ab8ff;--on:#0c1116}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.25rem .75rem;background:var(--page);color:var(--text);font:1rem/1.55 system-ui,sans-serif}
main{width:100%;max-width:27rem;padding:2rem 1.5rem;background:var(--card);border:1px solid var(--line);border-radius:.75rem;box-shadow:0 1px 3px #0001,0 8px 24px #0000000d;overflow-wrap:anywhere}
h1{margin:0 0 .75rem;font-size:1.375rem;line-height:1.3;text-wrap:balance}
p{margin:0 0 1.25rem}
#host{margin:0 0 .375rem;color:var(--soft);font-size:.875rem}
#widget:focus{outline:0}
#widget>div{min-height:4.25rem;margin-bottom:.5rem}
#status,.note{margin:0;padding:.75rem 1rem;border-radius:.5rem;background:var(--page)}
#host:empty,#status:empty{margin:0;padding:0}
button{margin:1rem 0 0;padding:.625rem 1.125rem;border:0;border-radius:.5rem;background:var(--accent);color:var(--on);font:inherit;font-weight:600;cursor:pointer}
button:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
[hidden]{display:none}
`;

/** Runs in the browser. Solving reloads the page, unless it was the response to a form. */
export const SCRIPT: string = `(c)=>{
const $=(id)=>document.getElementById(id),m=c.messages,KEY="sluice-challenge",WAIT=20000
let timer,loaded
const show=(text,button)=>{$("status").textContent=text;$("retry").hidden=button!=="retry";$("back").hidden=button!=="back"}
const fail=(text)=>{clearTimeout(timer);show(text,"retry");return true}
const remember=()=>{try{sessionStorage.setItem(KEY,Date.now())}catch{}}
const solvedMsAgo=()=>{try{return Date.now()-Number(sessionStorage.getItem(KEY))}catch{return Infinity}}
const post=async(token)=>{
clearTimeout(timer);show(m.checking)
let status=0
try{({status}=await fetch(c.path,{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify({token})}))}catch{}
$("widget").replaceChildren()
if(status!==204)return fail(status===403?m.failed:m.busy)
if(c.isForm)return show(m.formSolved,"back")
remember();show(m.solved);location.reload()
}
const ready=()=>{
loaded=true;clearTimeout(timer);show("")
const w=window[c.widget.object],unavailable=()=>fail(m.unavailable)
if(c.widget.execute)return w.ready(()=>w.execute(c.siteKey,{action:c.action}).then(post,unavailable))
const box=document.createElement("div")
$("widget").replaceChildren(box)
w.render(box,{sitekey:c.siteKey,action:c.action,callback:post,"error-callback":unavailable,"unsupported-callback":unavailable,
theme:matchMedia("(prefers-color-scheme:dark)").matches?"dark":"light",language:c.lang,hl:c.lang,size:innerWidth<350?"compact":"normal"})
}
const start=()=>{
show("")
if(loaded)return ready()
timer=setTimeout(()=>fail(m.unavailable),WAIT)
const s=document.createElement("script"),url=new URL(c.scriptUrl)
url.searchParams.set("onload","sluiceReady")
s.src=url;s.nonce=c.nonce;s.onerror=()=>fail(m.unavailable)
document.head.append(s)
}
window.sluiceReady=ready
$("host").textContent=location.hostname
$("retry").onclick=()=>{start();$("widget").focus()}
$("back").onclick=()=>history.back()
if(solvedMsAgo()<15000)fail(m.notKept);else start()
}`;
