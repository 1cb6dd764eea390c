/** The Workers of docs/migrating/from-your-own-script.md before and after the migration, in workerd. Needs `npm run build`. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { withWorkerd } from "../servers/needs.ts";
import { ROOT, type Snippet, snippetsOfKind } from "../snippets.ts";
import { startWorkerd } from "./workerd.ts";

const PAGE = "docs/migrating/from-your-own-script.md";
const before = snippetsOfKind("before").filter(({ page }) => page === PAGE);
const after = snippetsOfKind("worker").filter(({ page }) => page === PAGE);

/** The limits of the page, and what a Worker before the migration needs. */
const WORKERS = [
  {
    name: "a Durable Object",
    capacity: 10,
    perSecond: 5,
    objects: { TOKEN_BUCKET: { className: "TokenBucket" } },
  },
  { name: "timestamps in KV", capacity: 100, perSecond: 0, objects: {} },
];

let folder = "";
beforeAll(() => {
  // Inside the project, because the bundler resolves packages from there.
  mkdirSync(join(ROOT, ".cache"), { recursive: true });
  folder = mkdtempSync(join(ROOT, ".cache/replaced-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Sends requests until one is rejected, and checks how many were allowed. */
async function expectLimit(
  { line, extension, lines }: Snippet,
  objects: object,
  { capacity, perSecond }: { readonly capacity: number; readonly perSecond: number },
): Promise<void> {
  const file = join(folder, `worker-${line}.${extension}`);
  writeFileSync(file, lines.join("\n"));
  const workerd = await startWorkerd(pathToFileURL(file), {
    durableObjects: objects,
    kvNamespaces: ["KV"],
    handleStructuredLogs: () => {},
  });
  try {
    const start = performance.now();
    let allowed = 0;
    for (;;) {
      const response = await workerd.fetch("/", { headers: { "CF-Connecting-IP": "203.0.113.7" } });
      const text = (await response.text()).trim();
      if (response.status === 429) {
        expect(text).toBe("too many requests");
        break;
      }
      expect([response.status, text]).toEqual([200, "hello"]);
      allowed++;
    }
    expect(allowed).toBeGreaterThanOrEqual(capacity);
    expect(allowed).toBeLessThanOrEqual(capacity + (perSecond * (performance.now() - start)) / 1000);
  } finally {
    await workerd.stop();
  }
}

it("has a Worker before and after for each kind", () => {
  expect([before.length, after.length]).toEqual([WORKERS.length, WORKERS.length]);
});

describe.each(WORKERS.map((worker, i) => ({ ...worker, i })))("$name", ({ capacity, perSecond, objects, i }) => {
  it(`allows ${capacity} requests before the migration`, withWorkerd, async () => {
    await expectLimit(before[i] as Snippet, objects, { capacity, perSecond });
  });

  it(`allows ${capacity} requests after the migration`, withWorkerd, async () => {
    const ours = { RATE_LIMITER: { className: "RateLimiterDO", useSQLite: true } };
    await expectLimit(after[i] as Snippet, i === 0 ? ours : {}, { capacity, perSecond });
  });
});
