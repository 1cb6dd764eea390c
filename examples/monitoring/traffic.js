/** Sends requests of four tenants to the example, until Ctrl+C: node examples/monitoring/traffic.js http://127.0.0.1:8787 */
import { argv } from "node:process";

const [, , url = "http://127.0.0.1:8787"] = argv;

/** Requests per second. "loud" sends more than its limit. */
const TRAFFIC = [
  { tenant: "acme", method: "GET", path: "/search", perSecond: 3 },
  { tenant: "globex", method: "GET", path: "/search", perSecond: 2 },
  { tenant: "loud", method: "GET", path: "/search", perSecond: 25 },
  { tenant: "acme", method: "POST", path: "/reports", perSecond: 0.2 },
  { tenant: "initech", method: "GET", path: "/export", perSecond: 0.5 },
];

for (const { tenant, method, path, perSecond } of TRAFFIC) {
  setInterval(async () => {
    const response = await fetch(`${url}${path}`, { method, headers: { "X-Tenant": tenant } }).catch(() => undefined);
    await response?.text();
  }, 1000 / perSecond);
}
console.log(`Sending requests to ${url}. Ctrl+C stops it.`);
