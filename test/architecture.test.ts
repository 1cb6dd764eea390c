/** The architecture: which layer may import which, no import cycles, no Node API in the package. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { withImportMap } from "../scripts/draw-imports.js";

const src = fileURLToPath(new URL("../src", import.meta.url));

/** The layers that each layer may import besides itself. CONTRIBUTING.md contains the actual imports. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  algorithms: ["core"],
  policy: ["core", "algorithms"],
  idempotency: ["core"],
  stores: ["core", "algorithms", "policy", "idempotency"],
  resilience: ["core", "algorithms", "stores"],
  limiter: ["core", "algorithms", "policy", "stores", "resilience"],
  holds: ["core", "algorithms", "policy", "limiter", "resilience"],
  penalties: ["core", "algorithms", "policy", "limiter", "resilience"],
  http: ["core"],
  middleware: ["core", "algorithms", "policy", "holds", "http", "idempotency", "limiter", "resilience", "stores"],
  ws: ["core", "algorithms", "policy", "holds", "http", "limiter", "resilience"],
  rules: ["core", "algorithms", "policy", "holds", "http", "limiter", "resilience", "stores"],
  abuse: ["core", "algorithms", "http", "limiter", "penalties", "resilience", "stores"],
  observe: ["core", "algorithms", "policy", "http", "resilience", "rules"],
  testing: [
    "core",
    "algorithms",
    "policy",
    "idempotency",
    "stores",
    "resilience",
    "limiter",
    "holds",
    "penalties",
    "http",
    "middleware",
    "ws",
    "rules",
    "abuse",
    "observe",
  ],
  entries: [
    "core",
    "algorithms",
    "policy",
    "idempotency",
    "stores",
    "resilience",
    "limiter",
    "holds",
    "penalties",
    "http",
    "middleware",
    "ws",
    "rules",
    "abuse",
    "observe",
    "testing",
  ],
};

/** Only a store's shortcut may import the limiter, which imports stores. */
const SHORTCUT = /^stores\/.*\/rate-limiter\.ts$/;
/** The only store that other layers may import. */
const MEMORY = /^stores\/memory\//;

/** Packages that are bundled. */
const BUNDLED = /^@noble\/hashes\/|^ipaddr\.js$|^hono\/router\/trie-router$|^isbot$/;
/** Packages whose types a middleware imports. */
const SERVER: Record<string, readonly string[]> = {
  "middleware/node.ts": ["node:http"],
  "middleware/gate/extension.ts": ["node:http"],
  "middleware/hosts/node-capture.ts": ["node:http"],
  "middleware/hosts/fetch-connection.ts": ["node:http"],
  "middleware/hosts/node-close.ts": ["node:http"],
  "middleware/hosts/node-head.ts": ["node:http"],
  "middleware/hosts/node-request.ts": ["node:http"],
  "middleware/hosts/node.ts": ["node:http"],
  "middleware/hosts/request-body.ts": ["node:http"],
  "middleware/hosts/unread-body.ts": ["node:http"],
  "middleware/idempotency/payload.ts": ["node:http"],
  "middleware/to-node-handler.ts": ["node:http"],
  "middleware/express.ts": ["node:http", "express"],
  "middleware/fastify.ts": ["fastify"],
  "middleware/hono.ts": ["hono", "hono/utils/http-status"],
  "middleware/koa.ts": ["koa"],
  "middleware/sveltekit.ts": ["@sveltejs/kit"],
  "middleware/react-router.ts": ["react-router"],
  "middleware/netlify.ts": ["@netlify/edge-functions"],
  "middleware/hosts/fastify-reply.ts": ["fastify"],
  "middleware/hosts/nest-guard.ts": ["node:http", "fastify"],
  "middleware/trpc.ts": ["node:http"],
};

/**
 * Packages that a middleware imports at run time: NestJS and tRPC match errors and providers by class, and only h3 knows
 * which response the result of a handler is.
 */
const AT_RUN_TIME: Record<string, readonly string[]> = {
  "middleware/h3.ts": ["h3"],
  "middleware/nestjs.ts": ["@nestjs/common", "@nestjs/core"],
  "middleware/hosts/nest-guard.ts": ["@nestjs/common"],
  "middleware/trpc.ts": ["@trpc/server"],
  "observe/otel.ts": ["@opentelemetry/api"],
};

/** Contain scripts as text, which run in browsers and measure time there. */
const IN_BROWSERS = ["abuse/challenge/page-assets.ts", "observe/dashboard/page-script.ts"];

/** Modules of a runtime, and the files that import them: one per class of Durable Objects. */
const PLATFORM: Record<string, string> = {
  "stores/cloudflare/durable-object/object/in-workers.ts": "cloudflare:workers",
  "stores/cloudflare/idempotency/in-workers.ts": "cloudflare:workers",
};

const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
  .map((file) => file.replaceAll("\\", "/"));

function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/^(?:(?:import|export)\b[^;]*? from|import) "([^"]+)";/gm)].map(
    ([, path]) => path as string,
  );
}

function localImportsOf(file: string): string[] {
  return importsOf(file)
    .filter((path) => path.startsWith("."))
    .map((path) => relative(src, resolve(src, dirname(file), path)).replaceAll("\\", "/"));
}

/** The files that are imported at run time, and not only for their types. */
function runtimeImportsOf(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/^(?:import|export) (?!type )[^;]*? from "(\.[^"]+)";/gm)].map(([, path]) =>
    relative(src, resolve(src, dirname(file), path as string)).replaceAll("\\", "/"),
  );
}

describe("the architecture", () => {
  it("reads the source files", () => expect(files.length).toBeGreaterThan(20));

  it.each(files)("allows every import of %s", (file) => {
    const layer = file.split("/")[0] as string;
    const allowed = [layer, ...(MAY_IMPORT[layer] ?? []), ...(SHORTCUT.test(file) ? ["limiter", "resilience"] : [])];
    expect(MAY_IMPORT, `${layer} is not in the table`).toHaveProperty(layer);
    for (const path of localImportsOf(file)) {
      expect(allowed, `${file} imports ${path}`).toContain(path.split("/")[0]);
    }
  });

  it("imports no store but memory outside of stores, entries and testing", () => {
    const importers = files.filter((file) => !/^(stores|entries|testing)\//.test(file));
    for (const file of importers) {
      const stores = localImportsOf(file).filter((path) => path.startsWith("stores/") && !MEMORY.test(path));
      expect(stores, file).toEqual([]);
    }
  });

  it("imports adapters of stores from their own folder only, except that Upstash reuses the Redis script", () => {
    const folderOf = (file: string) =>
      /^stores\/(?:cloudflare\/)?[\w-]+\/(?=.)/.exec(file)?.[0].replace(/^stores\/cloudflare\/$/, "");
    for (const file of files) {
      const own = folderOf(file);
      if (!own) continue;
      const foreign = localImportsOf(file)
        .map(folderOf)
        .filter((folder) => folder && folder !== own);
      expect(
        foreign.filter((folder) => !(own === "stores/upstash/" && folder === "stores/redis/")),
        file,
      ).toEqual([]);
    }
  });

  it("has exports only in entries, one file per subpath", () => {
    const list: Record<string, string | Record<string, string>> = JSON.parse(
      readFileSync(new URL("../subpaths.json", import.meta.url), "utf8"),
    );
    const named = Object.values(list).flatMap((entry) => (typeof entry === "string" ? [entry] : Object.values(entry)));
    const entries = files.filter((file) => file.startsWith("entries/"));
    expect(entries.map((file) => file.slice("entries/".length, -".ts".length)).sort()).toEqual(
      [...new Set(named)].sort(),
    );
    for (const file of entries) {
      const code = readFileSync(join(src, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
      expect(code.replace(/^export (?:type )?(?:\{[^}]*\}|\*) from "[^"]+";$/gm, "").trim(), file).toBe("");
    }
  });

  it("imports no package but bundled ones, and no Node API", () => {
    const outside = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (path) =>
            !path.startsWith(".") &&
            !BUNDLED.test(path) &&
            !SERVER[file]?.includes(path) &&
            !AT_RUN_TIME[file]?.includes(path) &&
            PLATFORM[file] !== path,
        )
        .map((path) => `${file}: ${path}`),
    );
    expect(outside).toEqual([]);
  });

  it("imports types of servers only", () => {
    for (const [file, servers] of Object.entries(SERVER)) {
      const text = readFileSync(join(src, file), "utf8");
      for (const server of servers)
        expect(text, file).toMatch(new RegExp(`^import type [^;]* from "${server}";$`, "m"));
    }
  });

  it("imports nothing dynamically but jose, which verifies tokens, and sockets in a test suite", () => {
    const loading = files.filter((file) => /\bimport\(/.test(readFileSync(join(src, file), "utf8")));
    expect(loading).toEqual(["http/identity/jwt.ts", "testing/middleware/client.ts"]);
    expect(readFileSync(join(src, "http/identity/jwt.ts"), "utf8")).toContain('import("jose")');
  });

  it("matches the import map in CONTRIBUTING.md", () => {
    const page = readFileSync(new URL("../CONTRIBUTING.md", import.meta.url), "utf8");
    expect(page, "run node scripts/draw-imports.js").toBe(withImportMap(page));
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

  it("reads the system clock in one module", () => {
    const readers = files.filter((file) =>
      /Date\.now|new Date|performance\./.test(readFileSync(join(src, file), "utf8")),
    );
    expect(readers.filter((file) => !IN_BROWSERS.includes(file))).toEqual(["core/clock.ts"]);
  });

  it("has no randomness, await or timers in algorithms", () => {
    for (const file of files.filter((file) => file.startsWith("algorithms/"))) {
      expect(readFileSync(join(src, file), "utf8"), file).not.toMatch(/Math\.random|\bawait\b|\basync\b|setTimeout/);
    }
  });

  it("imports more than one algorithm only in the two lists of them", () => {
    const ALGORITHM =
      /^algorithms\/(?:token-bucket|leaky-bucket|fixed-window|sliding-window|sliding-log|concurrency|penalty)\.ts$/;
    const importers = files.filter((file) => localImportsOf(file).filter((path) => ALGORITHM.test(path)).length > 1);
    expect(importers.sort()).toEqual(["policy/algorithms.ts", "policy/rates.ts"]);
  });

  it("keeps the code of holds and penalties out of a limiter in memory", () => {
    const reached = new Set<string>();
    const visit = (file: string): void => {
      if (reached.has(file)) return;
      reached.add(file);
      for (const path of runtimeImportsOf(file)) visit(path);
    };
    visit("stores/memory/rate-limiter.ts");
    visit("limiter/combine.ts");
    const HOLDS = /^(?:holds|penalties)\/|(?:held|hold|holds|decide-block|block-terms|penalty|concurrency)[\w-]*\.ts$/;
    expect([...reached].filter((file) => HOLDS.test(file) && file !== "algorithms/max-holds.ts")).toEqual([]);
  });

  it("starts each file with a sentence that says what it is for", () => {
    for (const file of files) expect(readFileSync(join(src, file), "utf8"), file).toMatch(/^\/\*\*/);
  });
});
