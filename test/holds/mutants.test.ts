/**
 * Runs the tests of the holds on mutants: the source with one known bug each. The walk has to find every one of them, and
 * the check of the bound, which knows nothing about the implementation, some of them.
 * test/redis/holds-mutants.test.ts does the same for the 11 known bugs of the Redis script.
 */
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { build, type Rolldown } from "vite";
import { describe, expect, it } from "vitest";
import { subpaths } from "../../scripts/subpaths.js";
import { type Change, FEW_HOLDS, MUTANTS } from "./mutants.ts";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
/** A mutant that is an endless loop is stopped after so long. */
const ENDLESS_MS = 2000;

describe("the tests of the holds", () => {
  it("pass on the source if a bucket has at most three holds", async () => {
    expect(await findings([FEW_HOLDS])).toEqual({});
  });

  it.each(MUTANTS)("find a mutant: $name", async ({ changes, isEndless }) => {
    expect(Object.keys(await findings(changes, isEndless))).not.toEqual([]);
  });

  it("find at least six of them by the bound of actual use alone", async () => {
    const found: string[] = [];
    for (const { name, changes } of MUTANTS) if ((await findings(changes)).bound) found.push(name);
    expect(found.length).toBeGreaterThanOrEqual(6);
    expect(found).toContain("a hold is released at its end");
    expect(found).toContain("the estimate is taken at once, and the rest refunded (S instead of R)");
  });

  it("are run on 32 mutants with distinct names", () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(32);
  });
});

const results = new Map<readonly Change[], Promise<Record<string, string>>>();

/** The first test that fails on the changed source, and its message. */
function findings(changes: readonly Change[], isEndless = false): Promise<Record<string, string>> {
  let result = results.get(changes);
  if (!result) results.set(changes, (result = bundle(changes).then((code) => run(code, isEndless))));
  return result;
}

/** Bundles the worker with the changed source. */
async function bundle(changes: readonly Change[]): Promise<string> {
  const applied = new Set<Change>();
  const output = (await build({
    configFile: false,
    logLevel: "silent",
    resolve: {
      alias: subpaths.map(({ name, entry }) => ({
        find: new RegExp(`^${name.replace(".", "\\.")}$`),
        replacement: at(`../../src/entries/${entry}.ts`),
      })),
    },
    build: { write: false, ssr: at("mutant-worker.ts"), minify: false, target: "esnext" },
    plugins: [
      {
        name: "mutate",
        enforce: "pre",
        transform(code, id) {
          let text = code;
          for (const change of changes) {
            if (!id.endsWith(`/src/${change.file}`)) continue;
            const [before, after, ...more] = text.split(change.from);
            if (after === undefined || more.length > 0) throw new Error(`not once in ${change.file}: ${change.from}`);
            text = before + change.to + after;
            applied.add(change);
          }
          return text;
        },
      },
    ],
  })) as Rolldown.RolldownOutput;
  if (applied.size !== changes.length) throw new Error("a file of the mutant was not loaded");
  return output.output[0].code;
}

function run(code: string, isEndless: boolean): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`));
  return new Promise((resolve, reject) => {
    const stop = () => {
      found.end = `none after ${ENDLESS_MS} ms`;
      void worker.terminate();
    };
    const timer = isEndless ? setTimeout(stop, ENDLESS_MS) : undefined;
    worker.on("message", ({ name, message }) => {
      found[name] = message;
    });
    worker.on("error", reject);
    worker.on("exit", () => {
      clearTimeout(timer);
      resolve(found);
    });
  });
}
