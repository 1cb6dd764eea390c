/** Begins the same keys in two processes at once. Needs `npm run build`. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Number of keys that both processes begin. */
export const KEYS = 200;

/** Connects, waits for a line, begins all keys at once and prints the states. `setUp` defines `store`. */
const program = (setUp: string, name: string) => `
  const { once } = await import("node:events");
  ${setUp}
  const begin = (key, owner) =>
    store.begin({ scope: "two processes", key, fingerprint: "f", owner, leaseMs: 60_000, ttlMs: 60_000 });
  await begin("connects ${name}", "o");
  console.log("ready");
  await once(process.stdin, "data");
  const keys = Array.from({ length: ${KEYS} }, (_, i) => "key " + i);
  const results = await Promise.all(keys.map((key) => begin(key, "${name}")));
  console.log(JSON.stringify(results.map(({ state }) => state)));
  process.exit();
`;

/** Returns how many processes have started each key: 1 if begin is atomic. */
export async function startsPerKey(setUp: string): Promise<number[]> {
  const children = ["first", "second"].map((name) => {
    const child = spawn("node", ["--input-type=module", "--eval", program(setUp, name)], {
      cwd: root,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    return { child, next: async () => String((await lines.next()).value) };
  });
  try {
    for (const { next } of children) {
      const line = await next();
      if (line !== "ready") throw new Error(`A process printed ${line} instead of "ready".`);
    }
    for (const { child } of children) child.stdin.write("go\n");
    const states: string[][] = await Promise.all(children.map(async ({ next }) => JSON.parse(await next())));
    return Array.from({ length: KEYS }, (_, i) => states.filter((list) => list[i] === "started").length);
  } finally {
    for (const { child } of children) child.kill("SIGKILL");
  }
}
