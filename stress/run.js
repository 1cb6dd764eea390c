/**
 * Proofs that are too long for `npm test`: each prints its claims with the figures it saw.
 * `node stress/run.js hot-key` runs some of them. Needs `npm run build`.
 */
import { addresses } from "./addresses.js";
import { faults } from "./faults.js";
import { hotKey } from "./hot-key.js";
import { wsFrames } from "./ws-frames.js";
import { wsSockets } from "./ws-sockets.js";

const proofs = { addresses, "hot-key": hotKey, faults, "ws-frames": wsFrames, "ws-sockets": wsSockets };

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in proofs));
if (unknown.length > 0) throw new Error(`no proof ${unknown}; there are ${Object.keys(proofs).join(", ")}`);
let [passed, failed] = [0, 0];
process.on("unhandledRejection", (error) => {
  failed++;
  console.log(`unhandled rejection: ${error}`);
});
for (const name of wanted.length > 0 ? wanted : Object.keys(proofs)) {
  for await (const { claim, figures, failures } of proofs[name]()) {
    console.log(`${failures.length > 0 ? "FAILED" : "ok    "} ${claim.padEnd(34)} ${figures}`);
    for (const failure of failures.slice(0, 5)) console.log(`         ${failure}`);
    if (failures.length > 0) failed++;
    else passed++;
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
