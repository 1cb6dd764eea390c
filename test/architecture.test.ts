/** The architecture: which layer may import which, no import cycles, no Node API in the package. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { withImportMap } from "../scripts/draw-imports.js";

const src = fileURLToPath(new URL("../src", import.meta.url));

/** The layers that each layer may import besides itself. CONTRIBUTING.md contains the actual imports. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  base: [],
  core: ["base"],
  algorithms: ["base", "core"],
  policy: ["base", "core", "algorithms"],
  memory: ["base", "core", "policy"],
  joint: ["base", "core"],
  penalties: ["base", "core", "policy"],
  holds: ["base", "core", "policy", "joint", "penalties"],
  remote: ["base", "core", "policy", "memory"],
  http: ["base", "core", "holds"],
  idempotency: ["base", "core", "memory"],
  stores: ["base", "core", "algorithms", "policy", "holds", "idempotency"],
  rules: ["base", "core", "algorithms", "policy", "memory", "joint", "holds", "remote", "http"],
  abuse: ["base", "core", "memory", "penalties", "remote", "http"],
  observe: ["base", "core", "policy", "memory", "joint", "holds", "remote", "http", "rules"],
  middleware: ["base", "core", "policy", "memory", "joint", "holds", "remote", "http", "idempotency"],
  ws: ["base", "core", "policy", "joint", "holds", "http"],
};
MAY_IMPORT.testing = Object.keys(MAY_IMPORT);
MAY_IMPORT.entries = Object.keys(MAY_IMPORT);

/** Only a store's shortcut may import the limiter, which imports stores. */
const SHORTCUT = /^stores\/.*\/rate-limiter\.ts$/;

/** Packages that are bundled. */
const BUNDLED = /^@noble\/hashes\/|^ipaddr\.js$|^hono\/router\/trie-router$|^isbot$/;
/** Packages whose types a middleware imports. */
const SERVER: Record<string, readonly string[]> = {
  "middleware/node.ts": ["node:http"],
  "middleware/gate/response-capture.ts": ["node:http"],
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

/** The files that are reached by imports from some files. Default: by those at run time. */
function reachedFrom(from: readonly string[], importsOf: (file: string) => string[] = runtimeImportsOf): Set<string> {
  const reached = new Set<string>();
  const visit = (file: string): void => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const path of importsOf(file)) visit(path);
  };
  for (const file of from) visit(file);
  return reached;
}

describe("the architecture", () => {
  it("reads the source files", () => expect(files.length).toBeGreaterThan(20));

  it.each(files)("allows every import of %s", (file) => {
    const layer = file.split("/")[0] as string;
    const allowed = [layer, ...(MAY_IMPORT[layer] ?? []), ...(SHORTCUT.test(file) ? ["remote"] : [])];
    expect(MAY_IMPORT, `${layer} is not in the table`).toHaveProperty(layer);
    for (const path of localImportsOf(file)) {
      expect(allowed, `${file} imports ${path}`).toContain(path.split("/")[0]);
    }
  });

  it("imports no store outside of stores, entries and testing", () => {
    const importers = files.filter((file) => !/^(stores|entries|testing)\//.test(file));
    for (const file of importers) {
      const stores = localImportsOf(file).filter((path) => path.startsWith("stores/"));
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
    expect(readers.filter((file) => !IN_BROWSERS.includes(file))).toEqual(["base/clock.ts"]);
  });

  it("has no randomness, await or timers in algorithms", () => {
    for (const file of files.filter((file) => file.startsWith("algorithms/"))) {
      expect(readFileSync(join(src, file), "utf8"), file).not.toMatch(/Math\.random|\bawait\b|\basync\b|setTimeout/);
    }
  });

  it("imports more than one algorithm only in the two lists of them", () => {
    const ALGORITHM =
      /^algorithms\/(?:token-bucket|leaky-bucket|fixed-window|sliding-window|sliding-log)\.ts$|-algorithm\.ts$/;
    const importers = files.filter((file) => localImportsOf(file).filter((path) => ALGORITHM.test(path)).length > 1);
    expect(importers.sort()).toEqual(["holds/all-algorithms.ts", "policy/rates.ts"]);
  });

  it("keeps the code of holds and penalties out of a limiter in memory", () => {
    const reached = reachedFrom(["memory/rate-limiter.ts", "joint/combine.ts"]);
    const HOLDS = /^(?:holds|penalties)\/|(?:held|hold|holds|decide-block|block-terms|penalty|concurrency)[\w-]*\.ts$/;
    expect([...reached].filter((file) => HOLDS.test(file) && file !== "policy/max-holds.ts")).toEqual([]);
  });

  describe("the core", () => {
    const core = files.filter((file) => file.startsWith("core/"));

    it("is read in an hour: at most 2000 lines in 28 files", () => {
      const lines = core.map((file) => readFileSync(join(src, file), "utf8").split("\n").length - 1);
      expect(lines.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(2000);
      expect(core.length).toBeLessThanOrEqual(28);
    });

    it("has a README that names every file once, after those that it imports", () => {
      const readme = readFileSync(join(src, "core/README.md"), "utf8");
      const named = [...readme.matchAll(/^\| \[([\w-]+\.ts)\]\(\1\) \|/gm)].map(([, file]) => `core/${file}`);
      expect([...named].sort()).toEqual([...core].sort());
      for (const [i, file] of named.entries()) {
        const later = localImportsOf(file).filter((path) => path.startsWith("core/") && named.indexOf(path) >= i);
        expect(later, file).toEqual([]);
      }
    });

    it("has a README whose other paths exist", () => {
      const readme = readFileSync(join(src, "core/README.md"), "utf8");
      const paths = [...readme.matchAll(/\b((?:core|joint|memory|remote|algorithms|policy|penalties)\/[\w-]+\.ts)/g)];
      for (const [, path] of paths) expect(files, path).toContain(path);
    });
  });

  it("calls stores in engines, memory and testing only, and its fallback where a store fails", () => {
    const callers = files.filter((file) =>
      /\bstore\.apply\(|\.applySync\(/.test(readFileSync(join(src, file), "utf8")),
    );
    expect(callers.filter((file) => !/^(?:memory|testing|stores)\//.test(file)).sort()).toEqual([
      "core/apply.ts",
      "remote/denial-cache.ts",
      "remote/engine.ts",
      "remote/without-store.ts",
    ]);
  });

  it("attempts calls of stores in one place, and those of idempotency stores in another", () => {
    const callers = files.filter((file) => /health\.attempt\(/.test(readFileSync(join(src, file), "utf8")));
    expect(callers.sort()).toEqual(["middleware/idempotency/store-calls.ts", "remote/engine.ts"]);
  });

  it("has two limiter classes, and the hybrid of two limiters", () => {
    const classes = files.flatMap((file) => [
      ...readFileSync(join(src, file), "utf8").matchAll(
        /class (\w+)[^{]* implements (?:\w+, )*(?:\w*RateLimiter|ComposableLimiter)/g,
      ),
    ]);
    expect(classes.map(([, name]) => name).sort()).toEqual(["Hybrid", "Limiter", "SyncLimiter"]);
  });

  it("has these acts", () => {
    const acts = files.flatMap((file) =>
      [...readFileSync(join(src, file), "utf8").matchAll(/^(?:export )?const ([A-Z]+): Act =/gm)].map(
        ([, name]) => `${file}: ${name}`,
      ),
    );
    expect(acts.sort()).toEqual([
      "core/apply.ts: DEMAND",
      "core/apply.ts: PEEK",
      "core/apply.ts: REFUND",
      "core/apply.ts: STRIKE",
      "core/apply.ts: TAKE",
      "core/apply.ts: UNDO",
      "holds/hold-acts.ts: HOLD",
      "holds/settlement-queue.ts: RETRY",
    ]);
  });

  describe("a feature is a folder", () => {
    /** What has to work without any other feature. */
    const ESSENTIAL = [
      "memory/rate-limiter.ts",
      "policy/compile-policy.ts",
      "policy/policy-text.ts",
      "core/limiter.ts",
    ];
    const FEATURES: Record<string, readonly string[]> = {
      holds: ["joint/combine.ts", "remote/create-limiter.ts", "penalties/strikes.ts"],
      penalties: ["joint/combine.ts", "remote/create-limiter.ts"],
      joint: ["remote/create-limiter.ts", "stores/redis/redis-store.ts"],
      remote: ["joint/combine.ts", "holds/hold-all.ts"],
      rules: ["middleware/express.ts", "holds/hold-all.ts", "ws/servers/ws.ts"],
      abuse: ["middleware/express.ts", "rules/rule-set.ts", "ws/servers/ws.ts"],
      idempotency: ["stores/redis/redis-store.ts", "rules/rule-set.ts", "ws/servers/ws.ts"],
      observe: ["middleware/express.ts", "rules/rule-set.ts", "ws/servers/ws.ts"],
      ws: ["middleware/express.ts", "rules/rule-set.ts"],
    };

    it.each(Object.keys(FEATURES))("%s can be deleted with what imports it", (feature) => {
      const isDeleted = (file: string): boolean => file.startsWith(`${feature}/`);
      expect(files.some(isDeleted)).toBe(true);
      for (const file of [...ESSENTIAL, ...(FEATURES[feature] as readonly string[])]) {
        expect(files, file).toContain(file);
        expect([...reachedFrom([file], localImportsOf)].filter(isDeleted), file).toEqual([]);
      }
    });
  });

  // Except middleware: its hosts capture responses for idempotency, which runs on the hosts.
  it("has no cycles between the subfolders of a layer", () => {
    const folderOf = (file: string): string => dirname(file);
    const isNested = (a: string, b: string): boolean => `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`);
    const imports = new Map<string, Set<string>>();
    for (const file of files) {
      const from = folderOf(file);
      for (const path of localImportsOf(file)) {
        const to = folderOf(path);
        const layer = from.split("/")[0] as string;
        if (!isNested(from, to) && to.split("/")[0] === layer && layer !== "middleware") {
          imports.set(from, (imports.get(from) ?? new Set()).add(to));
        }
      }
    }
    const visit = (folder: string, path: readonly string[]): void => {
      expect(path.includes(folder), [...path, folder].join(" > ")).toBe(false);
      for (const next of imports.get(folder) ?? []) visit(next, [...path, folder]);
    };
    for (const folder of imports.keys()) visit(folder, []);
  });

  it("starts each file with a sentence that says what it is for", () => {
    for (const file of files) expect(readFileSync(join(src, file), "utf8"), file).toMatch(/^\/\*\*/);
  });
});
