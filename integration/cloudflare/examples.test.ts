/** The Cloudflare examples in real workerd, over HTTP. Needs `npm run build`. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../../test/cloudflare/workerd.ts";
import { until } from "../../test/servers/until.js";
import { burst, expectBucket, newAddress, request } from "./clients.ts";

const SECRET = "a secret that no log may contain";
/** The policy of the first example: a burst of 10, refilled by one every 200 ms. */
const [CAPACITY, REFILL_MS] = [10, 200];
const objects = { RATE_LIMITER: { className: "RateLimiterDO", useSQLite: true } };

// If workerd ends slowly, Miniflare leaves files behind: collect them in one folder.
const tempFolder = mkdtempSync(join(tmpdir(), "sluice-cloudflare-"));
process.env.TMPDIR = tempFolder;
afterAll(() => rmSync(tempFolder, { recursive: true, force: true, maxRetries: 10 }));

/** A bucket as the debug route returns it. */
interface Bucket {
  readonly found: boolean;
  readonly storedKey: string;
  readonly ttlMs: number;
  readonly raw: unknown;
}

interface Line {
  readonly level: string;
  readonly message: string;
}

/** A running example and its log. */
interface Example extends Workerd {
  readonly logged: Line[];
  to(path: string): URL;
}

async function startExample(name: string, bindings: object): Promise<Example> {
  const logged: Line[] = [];
  const entry = new URL(`../../examples/${name}/src/worker.ts`, import.meta.url);
  const workerd = await startWorkerd(entry, {
    ...bindings,
    handleStructuredLogs: (line: Line) => void logged.push(line),
  });
  return { ...workerd, logged, to: (path) => new URL(path, workerd.url) };
}

/** Waits for `count` log lines of a level after index `from`. Lines arrive a little after the responses. */
async function linesSince({ logged }: Example, from: number, level: string, count: number): Promise<string[]> {
  const lines = () => logged.slice(from).flatMap((line) => (line.level === level ? [line.message] : []));
  await until("the log", async () => (lines().length >= count ? undefined : `${lines().length} lines of ${count}`));
  return lines();
}

describe("cloudflare-worker on Durable Objects", () => {
  let example: Example;
  beforeAll(async () => {
    example = await startExample("cloudflare-worker", { durableObjects: objects, bindings: { DEBUG_SECRET: SECRET } });
    // The first request starts the object.
    await burst(example.to("/api"), 1);
  });
  afterAll(() => example?.stop());

  it("admits a burst of exactly its capacity", async () => {
    // On a busy machine tokens may refill during the burst; then try again with another client.
    let quick = await burst(example.to("/api"), 3 * CAPACITY);
    for (let i = 0; i < 20 && quick.tookMs >= REFILL_MS; i++) quick = await burst(example.to("/api"), 3 * CAPACITY);
    expectBucket(quick, 3 * CAPACITY);
    if (quick.tookMs < REFILL_MS) expect(quick.passed).toBe(CAPACITY);
  });

  it("admits no more than the refill of a client that keeps sending", async () => {
    const address = newAddress();
    const start = performance.now();
    const statuses: number[] = [];
    while (performance.now() - start < 3 * REFILL_MS)
      statuses.push((await request(example.to("/api"), address)).status);
    const refilled = Math.floor((performance.now() - start) / REFILL_MS);
    const passed = statuses.filter((status) => status === 200).length;
    expect(statuses.slice(0, CAPACITY)).toEqual(Array(CAPACITY).fill(200));
    expect(passed).toBeLessThanOrEqual(CAPACITY + refilled);
    expect(statuses.length - passed).toBeGreaterThan(0);
    expect([...new Set(statuses)]).toEqual([200, 429]);
  });

  it("rejects with a problem document and an exact retry time", async () => {
    const address = newAddress();
    let [denial, from, sentAt] = [new Response(), 0, 0];
    while (denial.status !== 429) {
      [from, sentAt] = [example.logged.length, performance.now()];
      denial = await request(example.to("/api"), address);
      // Wait for its own log line: the next line then belongs to the next request.
      await linesSince(example, from, "log", 1);
    }
    expect(denial.headers.get("Content-Type")).toBe("application/problem+json");
    expect(denial.headers.get("RateLimit-Policy")).toBe('"api";q=10;w=2');
    expect(await denial.json()).toMatchObject({ status: 429, "violated-policies": ["api"] });

    const [line = ""] = await linesSince(example, from, "log", 1);
    const { retryAfterMs } = JSON.parse(line);
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(REFILL_MS);
    // Rounded up to whole seconds.
    expect(denial.headers.get("Retry-After")).toBe("1");

    const repliedAt = performance.now();
    let deniedAt = repliedAt;
    await until("the next token", async () => {
      const now = performance.now();
      const { status } = await request(example.to("/api"), address);
      if (status === 429) deniedAt = now;
      return status === 200 ? undefined : `status ${status}`;
    });
    // Not before retryAfterMs; the Worker's clock has whole milliseconds.
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(retryAfterMs - 2);
    // No request was rejected after Retry-After.
    expect(deniedAt - repliedAt).toBeLessThan(1000);
  });

  it("has one budget per IP address", async () => {
    const { denied, address } = await burst(example.to("/api"), 2 * CAPACITY);
    const [other, same] = await Promise.all([
      request(example.to("/api"), newAddress()),
      request(example.to("/api"), address),
    ]);
    expect(denied).toBeGreaterThan(0);
    expect(other.headers.get("RateLimit")).toBe('"api";r=9;t=1');
    expect(same.headers.get("RateLimit")).toBe('"api";r=0;t=1');
  });

  it("logs one line of JSON per decision, without secrets", async () => {
    const from = example.logged.length;
    const { passed, denied, address } = await burst(example.to("/api"), CAPACITY + 5);
    await request(example.to(`/debug/bucket?key=ip:${address}`), address, { Authorization: `Bearer ${SECRET}` });
    await request(example.to("/nowhere"), address);
    // A request without an IP address is an error, whose line comes last.
    expect((await request(example.to("/api"), "nobody")).status).toBe(500);
    expect((await linesSince(example, from, "error", 1))[0]).toContain("docs/errors.md#unidentified");

    const lines = (await linesSince(example, from, "log", 1)).map((line) => JSON.parse(line));
    const linesWith = (allowed: boolean) => lines.filter((line) => line.allowed === allowed);
    expect([linesWith(true).length, linesWith(false).length, lines.length]).toEqual([passed, denied, CAPACITY + 5]);
    const common = { path: "/api", keyKind: "ip", policy: "api", remaining: expect.any(Number) };
    for (const line of linesWith(true)) expect(line).toEqual({ ...common, allowed: true });
    for (const line of linesWith(false))
      expect(line).toEqual({ ...common, allowed: false, retryAfterMs: expect.any(Number) });
    const text = JSON.stringify(example.logged);
    for (const secret of [SECRET, address]) expect(text).not.toContain(secret);
  });

  it("serves the debug route only with the secret", async () => {
    const { address, passed } = await burst(example.to("/api"), 3);
    const key = `ip:${address}`;
    const inspect = (given: string | undefined, query = `?key=${key}`) =>
      request(example.to(`/debug/bucket${query}`), newAddress(), given === undefined ? {} : { Authorization: given });
    const nowhere = await (await request(example.to("/nowhere"), newAddress())).text();
    const wrong = [undefined, "", SECRET, "Bearer", "Bearer undefined", `Bearer ${SECRET}s`, `Basic ${SECRET}`];
    for (const given of wrong) {
      const response = await inspect(given);
      expect([given, response.status, await response.text()]).toEqual([given, 404, nowhere]);
    }
    const shown = await inspect(`Bearer ${SECRET}`);
    expect(shown.headers.get("Cache-Control")).toBe("no-store");
    const bucket = await shown.json();
    expect(bucket).toMatchObject({ policy: "api", key, limit: CAPACITY, found: expect.any(Boolean) });
    expect(bucket.remaining).toBeGreaterThanOrEqual(CAPACITY - passed);
    expect((await inspect(`Bearer ${SECRET}`, "")).status).toBe(400);
    // Inspecting is free.
    const remaining = async () => (await (await inspect(`Bearer ${SECRET}`)).json()).remaining;
    await until("a full bucket", async () => ((await remaining()) === CAPACITY ? undefined : "not yet"));
  });
});

describe("cloudflare-worker with missing configuration", () => {
  it("has no debug route without a secret", async () => {
    for (const bindings of [{}, { DEBUG_SECRET: "" }]) {
      const example = await startExample("cloudflare-worker", { durableObjects: objects, bindings });
      try {
        for (const given of ["", "Bearer", "Bearer ", "Bearer undefined", "Bearer null"]) {
          const response = await request(example.to("/debug/bucket?key=k"), newAddress(), { Authorization: given });
          expect([given, response.status]).toEqual([given, 404]);
        }
      } finally {
        await example.stop();
      }
    }
  });

  it("falls back to memory without a binding, and warns once", async () => {
    const example = await startExample("cloudflare-worker", {});
    try {
      for (let i = 0; i < 3; i++) {
        expectBucket(await burst(example.to("/api"), CAPACITY + 5), CAPACITY + 5);
      }
      await request(example.to("/api"), "nobody");
      await linesSince(example, 0, "error", 1);
      expect(await linesSince(example, 0, "warn", 2)).toEqual([
        expect.stringContaining("no binding RATE_LIMITER: each isolate counts for itself"),
        expect.stringContaining("SLUICE_MISSING_CLIENT_ADDRESS"),
      ]);
    } finally {
      await example.stop();
    }
  });

  it("limits in memory if the class has no SQLite, and warns with the fix", async () => {
    const durableObjects = { RATE_LIMITER: { className: "RateLimiterDO", useSQLite: false } };
    const example = await startExample("cloudflare-worker", { durableObjects });
    try {
      expectBucket(await burst(example.to("/api"), 3 * CAPACITY), 3 * CAPACITY);
      expect((await linesSince(example, 0, "warn", 1))[0]).toContain("new_sqlite_classes");
      expect(JSON.parse((await linesSince(example, 0, "log", 1))[0] as string)).toMatchObject({ degraded: true });
    } finally {
      await example.stop();
    }
  });
});

describe("cloudflare-kv", () => {
  let example: Example;
  beforeAll(async () => {
    const bindings = { DEBUG_SECRET: SECRET };
    example = await startExample("cloudflare-kv", { durableObjects: objects, kvNamespaces: ["KV"], bindings });
  });
  afterAll(() => example?.stop());

  it.each(["/kv", "/exact"])("%s admits 100 requests in 60 seconds per IP address", async (path) => {
    // The window is far longer than the test: nothing refills.
    for (let client = 0; client < 2; client++) {
      const { address, passed, denied, denial, tookMs } = await burst(example.to(path), 120);
      expect({ passed, denied }).toEqual({ passed: 100, denied: 20 });
      const waitS = Number(denial?.headers.get("Retry-After"));
      expect(waitS).toBeLessThanOrEqual(60);
      expect(waitS).toBeGreaterThanOrEqual(60 - tookMs / 1000);
      expect((await request(example.to(path), address)).status).toBe(429);
    }
    expect(example.logged).toEqual([]);
  });

  it("has one budget per route", async () => {
    const { address } = await burst(example.to("/kv"), 100);
    expect((await request(example.to("/kv"), address)).status).toBe(429);
    expect((await request(example.to("/exact"), address)).status).toBe(200);
    expect((await request(example.to("/nowhere"), address)).status).toBe(404);
  });

  it("shows the stored value and its TTL on both stores, only with the secret", async () => {
    const { address } = await burst(example.to("/kv"), 3);
    for (let i = 0; i < 2; i++) await request(example.to("/exact"), address);
    const key = `ip:${address}`;
    const inspect = (given: string, query = `?key=${key}`) =>
      request(example.to(`/debug/bucket${query}`), newAddress(), given === "" ? {} : { Authorization: given });
    for (const given of ["", SECRET, "Bearer", "Bearer undefined", `Bearer ${SECRET}s`]) {
      expect([given, (await inspect(given)).status]).toEqual([given, 404]);
    }
    expect((await inspect(`Bearer ${SECRET}`, "")).status).toBe(400);

    // The write to KV ends after its response.
    const shown = async () =>
      (await (await inspect(`Bearer ${SECRET}`)).json()) as Record<"kv" | "durableObject", Bucket>;
    await until("the write to KV", async () => ((await shown()).kv.found ? undefined : "not yet"));
    const { kv, durableObject } = await shown();
    expect(kv).toMatchObject({ policy: "pages", key, limit: 100, remaining: 97, raw: expect.any(String) });
    expect(durableObject).toMatchObject({ policy: "pages", key, limit: 100, remaining: 98, found: true });
    expect(durableObject.raw).not.toBeNull();
    for (const { ttlMs, storedKey } of [kv, durableObject]) {
      expect(ttlMs).toBeGreaterThan(0);
      expect(storedKey).toContain(key);
    }
    expect((await inspect(`Bearer ${SECRET}`)).headers.get("Cache-Control")).toBe("no-store");
  });
});
