/**
 * The script of the dashboard, which runs in browsers. Every text is set with `textContent`.
 *
 * - `list` keeps rows by id and changes them in place, so that selections and scroll positions stay.
 * - The browser connects again by itself, unless the response was an error: `refused` does it then. The interval at the end
 *   detects connections that were lost without notice, as after sleep.
 */

export const SCRIPT: string = `const $=(id)=>document.getElementById(id),base=new URL(".",import.meta.url),url=(name)=>new URL(name,base)
const whole=new Intl.NumberFormat("en-GB"),clock=new Intl.DateTimeFormat("en-GB",{hour:"2-digit",minute:"2-digit",second:"2-digit"})
const day=new Intl.DateTimeFormat("en-GB",{day:"numeric",month:"short"})
const number=(n)=>whole.format(n)
const share=(part,all)=>{if(!all||!part)return"0%";const p=part*100/all;return(p<.1?"<0.1":p>99.9&&p<100?">99.9":p.toFixed(p<10?1:0))+"%"}
const rate=(n)=>n>=10?number(Math.round(n)):String(Math.round(n*10)/10)
const ms=(n)=>n>=1000?"≥ 1 s":(n<10?n.toFixed(2):n.toFixed(0))+" ms"
const span=(t)=>{const s=Math.max(0,Math.round(t/1000)),m=Math.floor(s/60),h=Math.floor(m/60),d=Math.floor(h/24)
const and=(n,unit)=>n?" "+n+unit:""
return d?d+" d"+and(h%24," h"):h?h+" h"+and(m%60," min"):m?m+" min":s+" s"}
const at=(t,now)=>(now-t>864e5?day.format(t)+", ":"")+clock.format(t)
const times=(n,word)=>number(n)+" "+word+(n===1?"":"s")
const text=(node,value)=>{if(node.textContent!==value)node.textContent=value}
const make=(tag,values,...children)=>{const node=document.createElement(tag)
for(const name in values)node.setAttribute(name,values[name])
node.append(...children);return node}
const svg=(tag,values)=>{const node=document.createElementNS("http://www.w3.org/2000/svg",tag)
for(const name in values)node.setAttribute(name,values[name])
return node}
const list=(parent,items,idOf,create,update)=>{const rows=parent.rowsById||=new Map(),ids=items.map(idOf)
for(const[id,row]of rows)if(!ids.includes(id)){row.remove();rows.delete(id)}
items.forEach((item,i)=>{let row=rows.get(ids[i])
if(!row){row=create(item);rows.set(ids[i],row)}
if(parent.children[i]!==row)parent.insertBefore(row,parent.children[i]||null)
update(row.parts||row,item)})}
const row=(cells)=>{const tr=make("tr",{},...cells);tr.parts=cells;return tr}
const show=(id,visible)=>{$(id).hidden=!visible}
const tile=(id,big,unit,small,bad)=>{const tile=$("t-"+id),dd=tile.lastElementChild
if(!dd.parts){const i=make("i"),strong=make("strong",{},"",i),note=make("small");dd.replaceChildren(strong,note);dd.parts=[strong.firstChild,i,note]}
dd.parts[0].data=big;text(dd.parts[1],unit?" "+unit:"");text(dd.parts[2],small);tile.classList.toggle("down",!!bad)}

const stores=({health,startedAt,now})=>{
const items=[...health.stores.map((s)=>({id:s.name,up:s.isUp,note:(s.isUp?"up since ":"down since ")+at(s.since,now)})),
...health.memory.map((m)=>({id:m.name,up:true,note:times(m.keys,"key")+(m.evictions?", "+number(m.evictions)+" evicted":", up since "+at(startedAt,now))}))]
const dd=$("t-stores").lastElementChild,shown=items.slice(0,3)
if(items.length>3)shown.push({id:"more",up:items.slice(3).every((i)=>i.up),name:"and "+(items.length-3)+" more",note:""})
if(!items.length)shown.push({id:"none",up:true,name:"None yet",note:"Limiters report their store."})
if(!dd.rowsById)dd.replaceChildren()
list(dd,shown,(i)=>i.id,()=>{const parts=[make("span"),make("small")],box=make("div",{},...parts);box.parts=parts;return box},
([name,note],i)=>{name.className=i.up?"dot":"dot off bad";text(name,i.name||i.id);text(note,i.note)})
$("t-stores").classList.toggle("down",items.some((i)=>!i.up))
}
const health=(d)=>{
stores(d)
const{health:h,now}=d,down=h.stores.filter((s)=>!s.isUp)
const slow=h.stores.filter((s)=>s.p99Ms!==null).sort((a,b)=>b.p99Ms-a.p99Ms)[0]
if(slow)tile("latency",ms(slow.p99Ms),"p99","p50 "+ms(slow.p50Ms)+", "+slow.name)
else tile("latency","–","",h.stores.length?"No calls in the last 5 minutes":"No remote store")
tile("degraded",number(h.degraded),"",h.degraded?"made without the store, since the start":"Every decision was made by its store",down.length)
if(h.rules)tile("rules",h.rules.version,"","in force since "+at(h.rules.since,now))
else tile("rules","–","","No rule set")
text($("summary"),down.length?down.map((s)=>s.name).join(", ")+(down.length>1?" are":" is")+" down. Decisions are made without it."
:h.stores.length||h.memory.length?"All stores are up.":"")
text($("process"),"This process only, for "+span(now-d.startedAt)+", sluice "+d.sluice)
}

const NAMES={allowed:"allowed",denied:"denied",wouldDeny:"would deny",degraded:"degraded"}
const words=(count)=>Object.keys(NAMES).map((name)=>number(count(name))+" "+NAMES[name]).join(", ")
const add=(counts)=>counts.reduce((a,b)=>a+b,0)
let bins
const nice=(n)=>{const p=10**Math.floor(Math.log10(n));return[1,2,5,10].map((f)=>f*p).find((m)=>m>=n)}
const chart=(d)=>{
const h=bins=d.history,n=h.allowed.length,sums={}
for(const name in NAMES){sums[name]=add(h[name]);text($("sum-"+name),number(sums[name]))}
const all=h.allowed.map((_,i)=>h.denied[i]+h.wouldDeny[i]+h.allowed[i]),most=Math.max(...all)
const top=most?nice(most*1000/h.binMs)*h.binMs/1000:1,low=new Array(n).fill(0)
for(const name of["denied","wouldDeny","allowed"]){let up="",back=""
for(let i=0;i<n;i++){const from=100-low[i]*100/top;low[i]+=h[name][i];const to=100-low[i]*100/top
up+=(i?"L":"M")+i+" "+to.toFixed(2)+"h1";back="L"+(i+1)+" "+from.toFixed(2)+"h-1"+back}
$("area-"+name).setAttribute("d",sums[name]?up+back+"z":"")}
$("area-degraded").setAttribute("d",h.degraded.map((c,i)=>c?"M"+i+" 97h1v3h-1z":"").join(""))
const perSecond=top*1000/h.binMs
text($("none"),most?"":"No "+d.unit+" in the last 15 minutes.");text($("y-max"),most?rate(perSecond)+"/s":"");text($("y-half"),most?rate(perSecond/2)+"/s":"")
$("chart").setAttribute("aria-label",most?"Stacked chart of the last 15 minutes: "+words((name)=>sums[name])+". The busiest 5 seconds had "+rate(most*1000/h.binMs)+" per second."
:"No "+d.unit+" in the last 15 minutes.")
const t=d.totals
text($("totals"),"Since the start: "+number(t.allowed+t.denied+t.wouldDeny)+" "+d.unit+", "+number(t.denied)+" denied")
if($("minutes").open)minutes()
}
const HINT=$("readout").textContent
const minutes=()=>{if(!bins)return
const rows=[];for(let i=bins.allowed.length-12;i>=0;i-=12)rows.push({t:bins.startsAt+i*bins.binMs,sum:(name)=>add(bins[name].slice(i,i+12))})
const body=$("minutes").querySelector("tbody")
list(body,rows,(_)=>rows.indexOf(_),()=>row([make("th",{scope:"row"}),...[0,0,0,0].map(()=>make("td"))]),(cells,m)=>{
text(cells[0],"from "+clock.format(m.t));Object.keys(NAMES).forEach((name,i)=>text(cells[i+1],number(m.sum(name))))})}
$("minutes").ontoggle=minutes
$("plot").onpointermove=(e)=>{if(!bins)return
const box=$("chart").getBoundingClientRect(),i=Math.floor((e.clientX-box.left)/box.width*bins.allowed.length)
if(i<0||i>=bins.allowed.length)return
$("cursor").setAttribute("d","M"+(i+.5)+" 0v100")
text($("readout"),clock.format(bins.startsAt+i*bins.binMs)+", 5 s: "+words((name)=>bins[name][i]))}
$("plot").onpointerleave=()=>{$("cursor").removeAttribute("d");text($("readout"),HINT)}

const area=(counts,top)=>"M0 28"+counts.map((c,i)=>"V"+(28-c*27/top).toFixed(1)+"H"+(i+1)*2).join("")+"V28z"
const rules=(d)=>{
const cell=(label)=>make("td",{"data-label":label})
list($("rules").tBodies[0],d.rules,(r)=>r.name,()=>{
const name=make("span"),mode=make("span"),small=make("small"),picture=svg("svg",{class:"spark",viewBox:"0 0 120 28",preserveAspectRatio:"none","aria-hidden":"true"})
const[a,b]=["allowed","denied"].map((c)=>svg("path",{class:c}));picture.append(a,b)
const tr=row([make("th",{scope:"row"},name,mode,small),cell("Per second"),cell("Denied"),cell("Median left"),make("td",{},picture)])
tr.cells[2].append("",make("small"))
tr.parts={name,mode,small,a,b,cells:[...tr.cells]};return tr},
(p,r)=>{text(p.name,r.name);text(p.mode,r.mode);p.mode.className="mode "+r.mode;text(p.small,r.patterns.join(", "))
text(p.cells[1],rate(r.perSecond));p.cells[2].firstChild.data=share(r.denied,r.requests);text(p.cells[2].lastChild,number(r.denied)+" of "+number(r.requests))
text(p.cells[3],r.remaining===null?"–":r.remaining<.1?"<10%":Math.round(r.remaining*100)+"%")
const top=Math.max(1,...r.sparkline.requests);p.a.setAttribute("d",r.requests?area(r.sparkline.requests,top):"");p.b.setAttribute("d",r.denied?area(r.sparkline.denied,top):"")})
show("rules",d.rules.length);show("rules-empty",!d.rules.length)
text($("rules-note"),d.moreRules?"and "+number(d.moreRules)+" more":"")
}
const keys=(d)=>{const top=d.topKeys.slice(0,10)
list($("keys").tBodies[0],top,(k)=>k.tag+" "+k.rule,()=>row([make("th",{scope:"row"},make("code")),make("td"),make("td"),make("td")]),
(c,k)=>{text(c[0].firstChild,k.tag);text(c[1],k.rule);text(c[2],number(k.atLeast));text(c[3],clock.format(k.since))})
show("keys",top.length);show("keys-empty",!top.length)
}
const shadow=(d)=>{
list($("shadow"),d.shadow,(s)=>s.rule,()=>{const parts=[make("b"),document.createTextNode(""),make("small")],li=make("li",{},...parts);li.parts=parts;return li},
([name,sentence,small],s)=>{text(name,s.rule);sentence.data=s.requests?" would deny "+share(s.wouldDeny,s.requests)+" of "+d.unit+(s.clients?", at least "+times(s.clients,"client"):""):" has had no "+d.unit
text(small,s.requests?" "+number(s.wouldDeny)+" of "+number(s.requests)+" since the start":"")})
show("shadow",d.shadow.length);show("shadow-empty",!d.shadow.length)
}
const events=(d)=>{const seen=new Map()
list($("events"),d.transitions,(e)=>{const id=[e.time,e.type,e.policy,e.store,e.message].join(" "),n=(seen.get(id)||0)+1;seen.set(id,n);return id+n},
()=>{const parts=[make("time"),make("code"),make("span")],li=make("li",{},...parts);li.parts=parts;return li},
([time,type,message],e)=>{text(time,at(e.time,d.now));text(type,e.type);text(message,e.message+(e.policy||e.store?" ("+[e.policy,e.store].filter(Boolean).join(", ")+")":""))})
show("events-empty",!d.transitions.length);$("events").parentNode.hidden=!d.transitions.length
text($("events-note"),d.transitions.length===100?"the last 100":"")
}

const note=(...words)=>make("p",{class:"empty"},...words)
const as=(kind)=>kind==="typed"?"as typed":"as "+(kind==="ip"?"IP address":kind)
const table=(entries)=>{const body=make("tbody")
for(const e of entries)body.append(row([make("th",{scope:"row"},e.policy,make("small",{},as(e.as))),make("td",{},e.strikes===undefined?number(e.remaining)+" of "+number(e.limit):times(e.strikes,"strike"),...(e.held?[make("small",{},number(e.held)+" held")]:[])),
make("td",{class:e.blockedMs?"bad":""},e.blockedMs?"for "+span(e.blockedMs):"no"),make("td",{},span(e.ttlMs))]))
return make("table",{},make("caption",{},"Budgets of the key"),make("thead",{},row(["Policy","Left","Blocked","Expires in"].map((h)=>make("th",{scope:"col"},h)))),body)}
$("look").onsubmit=async(event)=>{event.preventDefault()
const say=(sentence)=>$("found").replaceChildren(note(sentence))
try{const response=await fetch(url("key"),{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify({key:$("key").value})})
if(!response.ok)return say(response.status===403?"Access denied.":response.status===429?"Too many requests. Try again in a second.":"This is not a key that can be looked up.")
const r=await response.json(),stored=r.entries.filter((e)=>e.found),full=r.entries.filter((e)=>!e.found).map((e)=>e.policy),kinds=new Set(stored.map((e)=>e.as))
const tags=r.tags.filter((t)=>kinds.size?kinds.has(t.as):t.as==="typed"||t.as==="ip")
const notes=[full.length?(stored.length||r.failed.length?"":"Nothing is stored for this key. ")+"Nothing used of: "+full.slice(0,20).join(", ")+(full.length>20?" and "+(full.length-20)+" more.":"."):"",r.failed.length?"No reply for: "+r.failed.join(", ")+".":"",r.complete?"":"Not every policy could be read within 1 s."]
$("found").replaceChildren(...(stored.length?[table(stored)]:[]),...notes.filter(Boolean).map((n)=>note(n)),
note("Tag in log lines: ",...tags.flatMap((t,i)=>[i?", ":"",make("code",{},t.tag)," ("+as(t.as)+")"])))
}catch{say("The server did not respond.")}}

let source,last=0
const status=(state,sentence)=>{const node=$("status");node.dataset.state=state;text(node,sentence)}
const connect=()=>{source?.close();source=new EventSource(url("events"));last=Date.now()
source.onmessage=({data})=>{last=Date.now();const d=JSON.parse(data);for(const part of[health,chart,rules,keys,shadow,events])part(d);status("live","Live")}
source.onerror=()=>{if(source.readyState===2)void refused();else status("wait","Reconnecting…")}}
const refused=async()=>{status("wait","Reconnecting…");let wait=2000
try{const{status:code}=await fetch(url("data"),{method:"HEAD"})
if(code===403){status("bad","Access denied. Sign in again.");wait=10000}
else if(code===200)status("wait","Too many open dashboards")}catch{}
setTimeout(connect,wait)}
setInterval(()=>{if(source.readyState===1&&Date.now()-last>6000){status("wait","Reconnecting…");connect()}},1000)
connect()
`;
