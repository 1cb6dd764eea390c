/**
 * Runs the stress tests, which take too long for `npm test`, and prints one line per claim.
 * `node stress/run.js hot-key` runs one of them. Needs `npm run build`.
 */
import { startHeartbeat } from "../scripts/heartbeat.js";
import { ensureRedis } from "../test/servers/ensure-redis.js";
import { abuseForgery } from "./abuse-forgery.js";
import { abuseLists } from "./abuse-lists.js";
import { abuseLogin } from "./abuse-login.js";
import { addresses } from "./addresses.js";
import { concurrentRequests } from "./concurrent-requests.js";
import { faults } from "./faults.js";
import { holds } from "./holds.js";
import { holdsModel } from "./holds-model.js";
import { hotKey } from "./hot-key.js";
import { idempotency } from "./idempotency.js";
import { observeTopKeys } from "./observe-top-keys.js";
import { rulesFiles } from "./rules-files.js";
import { rulesMatching, rulesSpellings } from "./rules-matching.js";
import { rulesReload } from "./rules-reload.js";
import { rulesSaas } from "./rules-saas.js";
import { soak } from "./soak.js";
import { wsFrames } from "./ws-frames.js";
import { wsSockets } from "./ws-sockets.js";

const parts = {
  "abuse-lists": abuseLists,
  "abuse-forgery": abuseForgery,
  "abuse-login": abuseLogin,
  addresses,
  "concurrent-requests": concurrentRequests,
  holds,
  "holds-model": holdsModel,
  "hot-key": hotKey,
  idempotency,
  faults,
  "observe-top-keys": observeTopKeys,
  "rules-files": rulesFiles,
  "rules-matching": rulesMatching,
  "rules-reload": rulesReload,
  "rules-spellings": rulesSpellings,
  "rules-saas": rulesSaas,
  soak,
  "ws-frames": wsFrames,
  "ws-sockets": wsSockets,
};

const selected = process.argv.slice(2);
const unknown = selected.filter((name) => !(name in parts));
if (unknown.length > 0)
  throw new Error(`Unknown stress test: ${unknown.join(", ")}. Available: ${Object.keys(parts).join(", ")}.`);
let [passed, failed] = [0, 0];
process.on("unhandledRejection", (error) => {
  failed++;
  console.log(`unhandled rejection: ${error}`);
});
// Announces an installation, and rejects with what to install.
await ensureRedis();
for (const name of selected.length > 0 ? selected : Object.keys(parts)) {
  const stopHeartbeat = startHeartbeat(() => `stress/${name}`);
  for await (const { claim, details, failures } of parts[name]()) {
    console.log(`${failures.length > 0 ? "FAILED" : "ok    "} ${claim.padEnd(34)} ${details}`);
    for (const failure of failures.slice(0, 5)) console.log(`         ${failure}`);
    if (failures.length > 0) failed++;
    else passed++;
  }
  stopHeartbeat();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
