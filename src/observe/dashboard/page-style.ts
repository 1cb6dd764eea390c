/** The style of the dashboard's page. */

export const STYLE: string = `:root{color-scheme:light dark;--page:#eef3f7;--card:#fff;--text:#12202c;--soft:#526270;--line:#d9e2ea;--accent:#0b4f7d;--on:#fff;--allowed:#49b4e6;--denied:#d4431f;--would:#d99a1c;--degraded:#7a55cc;--bad:#b3301a;--good:#1b7f4d;--tint:#eaf5fc}
@media(prefers-color-scheme:dark){:root{--page:#0c1319;--card:#141d25;--text:#e6edf3;--soft:#9db0bf;--line:#26343f;--accent:#7dcdf8;--on:#06141e;--allowed:#2f8fc4;--denied:#ff7352;--would:#eab54a;--degraded:#b59cff;--bad:#ff8a70;--good:#5fd39a;--tint:#182733}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:.9375rem/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
header,main,footer{max-width:78rem;margin:0 auto;padding:0 clamp(1rem,3vw,2rem)}
header{display:flex;align-items:center;gap:.75rem;padding-top:1.25rem;padding-bottom:1.25rem}
header div{flex:1;min-width:0}
h1{margin:0;font-size:1.125rem;line-height:1.2;letter-spacing:-.01em}
h2{margin:0;font-size:1rem;line-height:1.35}
p{margin:0}
img{display:block}
#process,.title p,#readout,.axis,.empty,footer,caption,label,small,dt{color:var(--soft);font-size:.8125rem}
#status{padding:.25rem .75rem;border:1px solid var(--line);border-radius:1rem;background:var(--card);font-size:.8125rem;white-space:nowrap}
#status::before{content:"";display:inline-block;width:.5rem;height:.5rem;margin-right:.4375rem;border-radius:50%;background:var(--would)}
#status[data-state=live]::before{background:var(--good)}
#status[data-state=bad]::before{background:var(--bad)}
main{display:grid;gap:1rem}
.card,#health>div{background:var(--card);border:1px solid var(--line);border-radius:.75rem}
.card{padding:1.125rem 1.25rem;min-width:0}
.title{display:flex;flex-wrap:wrap;align-items:baseline;justify-content:space-between;gap:.125rem 1rem;margin-bottom:.75rem;min-height:1.375rem}
#health{display:grid;grid-template-columns:repeat(4,1fr);gap:1rem;margin:0}
#health>div{padding:.875rem 1.125rem;min-height:6.25rem}
#health .down{border-color:var(--bad)}
dd{margin:.125rem 0 0;overflow-wrap:anywhere}
dd strong{display:block;font-size:1.5rem;line-height:1.3;font-weight:600;letter-spacing:-.01em}
dd strong i{font-style:normal;font-size:.875rem;font-weight:400;letter-spacing:0;color:var(--soft)}
dd small{display:block}
.dot::before{content:"";display:inline-block;width:.5625rem;height:.5625rem;margin-right:.4375rem;border-radius:50%;background:var(--good)}
.dot.off::before{background:var(--bad);border-radius:1px}
.bad{color:var(--bad)}
ul,ol{list-style:none;margin:0;padding:0}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;margin-bottom:.75rem;font-size:.875rem}
.legend b{font-weight:600}
.key{display:inline-block;width:.75rem;height:.75rem;margin-right:.4375rem;border-radius:.1875rem;vertical-align:-.0625rem}
.key.allowed{background:var(--allowed)}.key.denied{background:var(--denied)}.key.wouldDeny{background:var(--would)}.key.degraded{background:var(--degraded);height:.25rem;vertical-align:.1875rem}
.plot{position:relative;height:11rem}
.plot svg{width:100%;height:100%;display:block;overflow:visible}
.plot span{position:absolute;left:0;padding:0 .25rem;background:var(--card);color:var(--soft);font-size:.75rem;line-height:1;transform:translateY(-50%)}
#y-max{top:.5%}#y-half{top:50%}.plot #none{top:50%;left:50%;padding:0 .75rem;font-size:.8125rem;transform:translate(-50%,-50%);white-space:nowrap}
.plot span:empty{display:none}
.grid,.cursor{fill:none;stroke:var(--line);vector-effect:non-scaling-stroke}
.cursor{stroke:var(--text)}
path.allowed{fill:var(--allowed)}path.denied{fill:var(--denied)}path.wouldDeny{fill:var(--would)}path.degraded{fill:var(--degraded)}
.axis{display:grid;grid-template-columns:1fr 1fr 1fr 0;padding-top:.25rem;border-top:1px solid var(--line);font-size:.75rem}
.axis :last-child{justify-self:end}
#readout{min-height:1.25rem;margin-top:.5rem}
summary{width:max-content;margin-top:.5rem;color:var(--accent);font-size:.8125rem;cursor:pointer}
table{width:100%;border-collapse:collapse}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{padding:.4375rem .5rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child,#keys tr>:nth-child(2){text-align:left}
th:first-child{padding-left:0}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--soft);font-size:.75rem;font-weight:500;white-space:nowrap}
tbody th{font-weight:600;overflow-wrap:anywhere}
tbody tr:last-child>*{border-bottom:0}
td{white-space:nowrap}
#keys code{white-space:nowrap}
#keys td:nth-child(2){white-space:normal;overflow-wrap:anywhere}
td small,th small,#shadow small{display:block;font-weight:400}
code{font:.8125rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.mode{margin-left:.4375rem;padding:0 .4375rem;border:1px solid currentColor;border-radius:.625rem;color:var(--soft);font-size:.6875rem;font-weight:500;vertical-align:.0625rem;white-space:nowrap}
.mode.shadow{color:var(--degraded)}
.spark{width:9rem;height:1.875rem;display:inline-block}
.pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));align-items:start;gap:1rem}
.wide{grid-template-columns:minmax(0,5fr) minmax(0,3fr);align-items:stretch}
.empty{padding:.375rem 0}
form div{display:flex;gap:.5rem;margin:.375rem 0 .75rem}
input,button{padding:.5rem .75rem;border:1px solid var(--soft);border-radius:.5rem;background:var(--page);color:inherit;font:inherit}
input{flex:1;min-width:0}
button{border-color:var(--accent);background:var(--accent);color:var(--on);font-weight:600;cursor:pointer;white-space:nowrap}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
#shadow li,#events li{padding:.4375rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
#shadow li:last-child,#events li:last-child{border-bottom:0}
.scroll{max-height:21rem;overflow:auto}
#events li{display:grid;grid-template-columns:5.5rem 9.5rem 1fr;gap:0 .75rem}
#events time{color:var(--soft)}
footer{padding-top:1.25rem;padding-bottom:2rem}
[hidden]{display:none!important}
@media(max-width:60rem){.pair,.wide{grid-template-columns:minmax(0,1fr)}#health{grid-template-columns:1fr 1fr}}
@media(max-width:40rem){
header{flex-wrap:wrap}
.card{padding:1rem}
#health{gap:.5rem}
#health>div{padding:.75rem .875rem;min-height:5.75rem}
dd strong{font-size:1.25rem}
.plot{height:9rem}
main{gap:.75rem}.pair{gap:.75rem}
.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.stack,.stack tbody{display:block}
.stack tr{display:grid;grid-template-columns:4.5rem 6.5rem 5.5rem 1fr;gap:0 .5rem;padding:.5rem 0;border-bottom:1px solid var(--line)}
.stack tr:last-child{border-bottom:0}
.stack tr>*{padding:0;border:0;text-align:left}
.stack th{grid-column:1/-1;padding-bottom:.1875rem}
.stack td::before{content:attr(data-label);display:block;color:var(--soft);font-size:.6875rem}
.stack td:last-child{text-align:right}.stack td:last-child::before{content:none}
.spark{width:100%;max-width:6rem}
#found tr>*+*{padding:.4375rem .1875rem}#found td:nth-child(3){white-space:normal}#found th{min-width:5.75rem}#found th+th{min-width:0}
#events li{grid-template-columns:5.5rem 1fr}#events span{grid-column:1/-1}
}
@media(prefers-reduced-motion:no-preference){#status[data-state=wait]::before{animation:p 1.2s infinite alternate}@keyframes p{to{opacity:.25}}}
`;
