/** Runs all benchmarks, or those named on the command line, and prints their tables. `--write` updates the README. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { changedSettings } from "./settings.js";

const PARTS = [
  "memory-throughput",
  "memory-footprint",
  "memory-bypass",
  "chosen-keys",
  "redis-throughput",
  "redis-groups",
  "redis-sliding-log",
  "redis-holds",
  "cloudflare-throughput",
  "http-throughput",
  "rules",
  "idempotency",
  "observe",
  "ws-throughput",
  "import-size",
];
const MARK = "<!-- results -->";

const readme = new URL("README.md", import.meta.url);
const args = process.argv.slice(2);
const named = args.filter((arg) => arg !== "--write");
const unknown = named.find((name) => !PARTS.includes(name));
if (unknown) fail(`Unknown benchmark: ${unknown}. Available: ${PARTS.join(", ")}.`);
if (!existsSync(new URL("../dist/index.js", import.meta.url)))
  fail("dist/ is missing. Run `npm run build` in the repository root first.");

let text = "";
print(heading());
for (const part of named.length > 0 ? named : PARTS) {
  const { title, run } = await import(`./${part}.js`);
  const tables = await run((step) => process.stderr.write(`${part}: ${step}\n`));
  print(`### ${title}\n\n${tables.join("\n\n")}`);
}
if (args.includes("--write")) write();

function heading() {
  const { dependencies } = JSON.parse(readFileSync(new URL("package.json", import.meta.url), "utf8"));
  const packages = Object.entries(dependencies).map((pair) => pair.join(" "));
  const processors = cpus();
  const command = `${changedSettings()}node run.js ${args.join(" ")}`.trim();
  return [
    `- Command: \`${command}\``,
    `- Date: ${new Date().toISOString().slice(0, 10)}`,
    `- Node ${process.versions.node}, V8 ${process.versions.v8}`,
    `- ${processors.length} x ${processors[0]?.model.trim()}, load average at the start ${loadavg()[0].toFixed(2)}`,
    `- Packages: ${packages.join(", ")}`,
  ].join("\n");
}

function print(block) {
  text += `${block}\n\n`;
  console.log(`${block}\n`);
}

/** Replaces everything after the marker: the results are the last section of the README. */
function write() {
  const before = readFileSync(readme, "utf8").split(MARK)[0];
  writeFileSync(readme, `${before}${MARK}\n\n${text.trim()}\n`);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
