/** The architecture: which layer may import which, no cycles, nothing of Node in what is published. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const src = fileURLToPath(new URL("../src", import.meta.url));

/** Layer -> layers that it may import besides itself. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  algorithms: ["core"],
  stores: ["core", "algorithms"],
  resilience: ["core", "algorithms", "stores"],
  limiter: ["core", "algorithms", "stores", "resilience"],
  http: ["core"],
  middleware: ["core", "http", "limiter", "resilience"],
  ws: ["core", "algorithms", "http", "limiter", "resilience"],
  testing: ["core", "algorithms", "stores", "resilience", "limiter", "http", "middleware", "ws"],
};

/** What is bundled. */
const BUNDLED = /^@noble\/hashes\/|^ipaddr\.js$/;
/** What a middleware knows of its server: types, which are gone at run time. */
const SERVER: Record<string, readonly string[]> = {
  "middleware/node.ts": ["node:http"],
  "middleware/node-head.ts": ["node:http"],
  "middleware/node-server.ts": ["node:http"],
  "middleware/express.ts": ["node:http", "express"],
  "middleware/fastify.ts": ["fastify"],
  "middleware/hono.ts": ["hono", "hono/utils/http-status"],
};

/** What a runtime brings along, and where it is asked for. */
const PLATFORM: Record<string, string> = { "stores/cloudflare/in-workers.ts": "cloudflare:workers" };

const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
  .map((file) => file.replaceAll("\\", "/"));

function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/(?:from|import) "([^"]+)"/g)].map(([, path]) => path as string);
}

function localImportsOf(file: string): string[] {
  return importsOf(file)
    .filter((path) => path.startsWith("."))
    .map((path) => relative(src, resolve(src, dirname(file), path)).replaceAll("\\", "/"));
}

describe("the architecture", () => {
  it("finds the source", () => expect(files.length).toBeGreaterThan(20));

  it.each(files.filter((file) => file.includes("/")))("%s imports only what its layer may", (file) => {
    const layer = file.split("/")[0] as string;
    const allowed = MAY_IMPORT[layer];
    expect(allowed, `${layer} is not in the table`).toBeDefined();
    for (const path of localImportsOf(file)) {
      const ok = [layer, ...(allowed ?? [])].some((other) => path.startsWith(`${other}/`));
      expect(ok, `${file} imports ${path}`).toBe(true);
    }
  });

  it("keeps clients out of the glue: only the shortest ways to a limiter know a store other than memory", () => {
    const knowing = files.filter(
      (file) =>
        /^(limiter|resilience)\//.test(file) && localImportsOf(file).some((path) => /^stores\/(?!memory\/)/.test(path)),
    );
    expect(knowing.filter((file) => !file.endsWith("-rate-limiter.ts"))).toEqual([]);
  });

  it("imports no package but those that are bundled, and nothing of Node", () => {
    const outside = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (path) =>
            !path.startsWith(".") && !BUNDLED.test(path) && !SERVER[file]?.includes(path) && PLATFORM[file] !== path,
        )
        .map((path) => `${file}: ${path}`),
    );
    expect(outside).toEqual([]);
  });

  it("knows of servers by their types only", () => {
    for (const [file, servers] of Object.entries(SERVER)) {
      const text = readFileSync(join(src, file), "utf8");
      for (const server of servers) expect(text, file).toMatch(new RegExp(`^import type .* from "${server}";$`, "m"));
    }
  });

  it("loads nothing by itself but jose, which is asked for where tokens are verified", () => {
    const loading = files.filter((file) => /\bimport\(/.test(readFileSync(join(src, file), "utf8")));
    expect(loading).toEqual(["http/jwt.ts"]);
    expect(readFileSync(join(src, "http/jwt.ts"), "utf8")).toContain('import("jose")');
  });

  it("has no cycles", () => {
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      expect(path, "a cycle").not.toContain(file);
      if (done.has(file)) return;
      for (const next of localImportsOf(file)) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
    expect(done.size).toBe(files.length);
  });

  it("asks for the hour in one place", () => {
    const asking = files.filter((file) =>
      /Date\.now|new Date|performance\./.test(readFileSync(join(src, file), "utf8")),
    );
    expect(asking).toEqual(["core/clock.ts"]);
  });

  it("keeps chance and waiting out of the arithmetic", () => {
    for (const file of files.filter((file) => file.startsWith("algorithms/"))) {
      expect(readFileSync(join(src, file), "utf8"), file).not.toMatch(/Math\.random|\bawait\b|\basync\b|setTimeout/);
    }
  });

  it("says at the top of each file what it is for", () => {
    for (const file of files) expect(readFileSync(join(src, file), "utf8"), file).toMatch(/^\/\*\*/);
  });
});
