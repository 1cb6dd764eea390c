/** Tests the package as users install it: packed, installed into an empty project, imported as ESM and CommonJS. Needs `npm run build`. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  subpaths as declaredSubpaths,
  entryFiles,
  JSON_FILES,
  packageExports,
  typesVersions,
} from "../scripts/subpaths.js";
import { VERSION } from "../src/base/version.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const bin = (name: string) => join(root, "node_modules/.bin", name);
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const require = createRequire(import.meta.url);
const subpaths = Object.keys(manifest.exports).filter((path) => !JSON_FILES.includes(path));
const project = mkdtempSync(join(tmpdir(), "sluice-package-"));
let tarball = "";

function run(command: string, args: string[], cwd = project): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** The code of a file of the package and of every file that it imports. */
function codeOf(file: string, seen = new Set<string>()): string {
  if (seen.has(file)) return "";
  seen.add(file);
  const code = readFileSync(file, "utf8");
  const imports = [...code.matchAll(/(?:from|import\(?)\s*"(\.[^"]+)"/g)];
  return code + imports.map(([, path = ""]) => codeOf(join(dirname(file), path), seen)).join("");
}

/** The subpaths that import a peer dependency at run time. */
const IMPORTS_PEERS = ["./h3", "./nestjs", "./trpc"];

/** The names that a built file exports, read from its text. */
function exportsIn(file: string): string[] {
  const code = readFileSync(file, "utf8");
  const [, list = ""] = /^export \{ (.*) \};$/m.exec(code) ?? [];
  const esm = list.split(", ").map((name) => name.split(" as ").at(-1) as string);
  return list ? esm : [...code.matchAll(/^exports\.(\w+) = /gm)].map(([, name]) => name as string);
}

beforeAll(() => {
  if (!existsSync(join(root, "dist/index.js"))) throw new Error("dist/ is missing. Run `npm run build` first.");
  const [packed] = JSON.parse(run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], root));
  tarball = join(project, packed.filename);
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
  run("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball]);
}, 120_000);

afterAll(() => rmSync(project, { recursive: true, force: true }));

/** The subpaths whose declarations import types that Node's do not include. */
const WITH_TYPES_OF_OTHERS = [
  ...[
    "./cloudflare",
    "./express",
    "./fastify",
    "./hono",
    "./koa",
    "./sveltekit",
    "./react-router",
    "./netlify",
    "./otel",
  ],
  ...IMPORTS_PEERS,
];

describe("the package", () => {
  it("exports the names of the snapshot", async () => {
    const names: Record<string, string[]> = {};
    for (const path of subpaths) {
      const [esm, cjs] = [manifest.exports[path].import, manifest.exports[path].require];
      if (IMPORTS_PEERS.includes(path)) {
        // Its framework is installed in integration/ only.
        names[path] = exportsIn(join(root, esm.default)).sort();
        expect(exportsIn(join(root, cjs.default)).sort(), path).toEqual(names[path]);
        continue;
      }
      names[path] = Object.keys(await import(pathToFileURL(join(root, esm.node ?? esm.default)).href)).sort();
      expect(Object.keys(require(join(root, cjs.node ?? cjs.default))).sort(), path).toEqual(names[path]);
    }
    expect(names).toMatchInlineSnapshot(`
      {
        ".": [
          "SluiceError",
          "block",
          "combine",
          "concurrency",
          "consumeAll",
          "createLimiter",
          "fixedWindow",
          "hold",
          "holdAll",
          "holdSync",
          "leakyBucket",
          "memoryRateLimiter",
          "memoryStore",
          "parsePolicy",
          "penalty",
          "settle",
          "slidingLog",
          "slidingWindow",
          "strike",
          "tokenBucket",
          "unblock",
        ],
        "./abuse": [
          "abuse",
          "challenge",
          "cloudflareBots",
          "hcaptcha",
          "headerSignal",
          "ipList",
          "keyList",
          "recaptcha",
          "turnstile",
          "userAgentBots",
        ],
        "./algorithms": [
          "algorithms",
          "compilePolicy",
          "decide",
          "decideGroup",
          "decodeCharge",
          "describeState",
          "encodeCharge",
          "fits",
          "holdTerms",
          "peek",
          "refund",
          "take",
          "usage",
        ],
        "./cloudflare": [
          "IdempotencyDO",
          "RateLimiterDO",
          "bindingRateLimiter",
          "durableObjectIdempotencyStore",
          "durableObjectRateLimiter",
          "durableObjectStore",
          "hybridRateLimiter",
          "kvRateLimiter",
          "kvStore",
        ],
        "./express": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./fastify": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
          "rateLimitPlugin",
        ],
        "./fetch": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./h3": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./hono": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./http": [
          "clientIp",
          "clientKey",
          "partitionKey",
          "rateLimitHeaders",
          "tooManyRequests",
        ],
        "./idempotency": [
          "memoryIdempotencyStore",
        ],
        "./koa": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./nestjs": [
          "RATE_LIMIT_OPTIONS",
          "RateLimit",
          "RateLimitException",
          "RateLimitGuard",
          "RateLimitModule",
          "SkipRateLimit",
          "getIdempotency",
          "getRateLimit",
          "idempotentGuard",
          "rateLimitGuard",
        ],
        "./netlify": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./next": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "limitAction",
          "limitRoute",
          "rateLimit",
        ],
        "./node": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
          "toNodeHandler",
        ],
        "./observe": [
          "createObserver",
          "dashboard",
          "jsonLog",
          "loopbackToken",
          "suggestPolicy",
        ],
        "./otel": [
          "otelMetrics",
          "otelSpans",
        ],
        "./prometheus": [
          "prometheusMetrics",
        ],
        "./react-router": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./redis": [
          "redisIdempotencyStore",
          "redisRateLimiter",
          "redisStore",
        ],
        "./rules": [
          "checkRules",
          "checkRulesInSlices",
          "defineRules",
          "loadRules",
          "presets",
        ],
        "./socket.io": [
          "guardSocketIo",
        ],
        "./sveltekit": [
          "getIdempotency",
          "getRateLimit",
          "idempotent",
          "rateLimit",
        ],
        "./testing": [
          "describeRateLimiter",
          "fakeClock",
          "findExcess",
          "guardedRoutes",
          "idempotencySuite",
          "leastAdmitted",
          "middlewareSuite",
          "storeSuite",
        ],
        "./trpc": [
          "RateLimitError",
          "rateLimit",
          "rateLimitErrorFormatter",
        ],
        "./upstash": [
          "upstashIdempotencyStore",
          "upstashRateLimiter",
          "upstashStore",
        ],
        "./ws": [
          "createGuard",
          "errorEnvelope",
          "guardWs",
          "jsonRpcError",
          "jsonType",
          "keyPerUser",
          "keyPerUserOrIpPerType",
          "keyPerUserPerType",
          "perUserKey",
        ],
        "./ws-bun": [
          "guardBun",
        ],
        "./ws-deno": [
          "guardDeno",
        ],
        "./ws-durable-object": [
          "guardDurableObject",
        ],
        "./ws-kit": [
          "keyPerUser",
          "keyPerUserOrIpPerType",
          "keyPerUserPerType",
          "perUserKey",
          "rateLimit",
        ],
      }
    `);
  });

  it("has few chunks, none of which imports itself through others", () => {
    const files = readdirSync(join(root, "dist"));
    for (const extension of [".js", ".cjs"]) {
      const chunks = files.filter((file) => file.endsWith(extension));
      const importsOf = (file: string) =>
        [...readFileSync(join(root, "dist", file), "utf8").matchAll(/(?:from |require\()"\.\/([^"]+)"/g)].map(
          ([, name]) => name as string,
        );
      const reachable = (file: string, seen = new Set<string>()): Set<string> => {
        for (const name of importsOf(file)) if (!seen.has(name)) reachable(name, seen.add(name));
        return seen;
      };
      expect(chunks.filter((file) => reachable(file).has(file))).toEqual([]);
      const names = chunks.map((file) => file.replace(/-[\w-]{8}(?=\.c?js$)/, "").replace(/\.c?js$/, ""));
      const shared = names.filter((_, i) => /-[\w-]{8}\.c?js$/.test(chunks[i] as string));
      expect(shared.sort()).toMatchInlineSnapshot(`
        [
          "address",
          "core",
          "define-rules",
          "fastify-reply",
          "gate",
          "holds",
          "idempotency",
          "ip-list",
          "memory-store",
          "objects",
          "observer",
          "rate-limiter",
          "sha2",
          "ws",
        ]
      `);
    }
    expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
  });

  it("declares the subpaths of subpaths.json in package.json, in the same order", () => {
    expect(JSON.stringify(manifest.exports)).toBe(JSON.stringify(packageExports));
    expect(manifest.typesVersions).toEqual(typesVersions);
  });

  it("has the version of package.json in src/base/version.ts", () => {
    expect(VERSION).toBe(manifest.version);
  });

  it("has one entry file per subpath, which starts with the comment that the reference needs", () => {
    const files = readdirSync(join(root, "src/entries")).map((file) => `src/entries/${file}`);
    expect(files.sort()).toEqual([...entryFiles].sort());
    for (const { name, entry } of declaredSubpaths) {
      const [firstLine = ""] = readFileSync(join(root, `src/entries/${entry}.ts`), "utf8").split("\n");
      expect(firstLine, entry).toMatch(new RegExp(`^/\\*\\* \`${name.replace(".", "\\.")}\`: \\S`));
    }
  });

  it("lists in THIRD-PARTY.md every subpath that contains bundled code", () => {
    const markers = {
      "@noble/hashes": "node_modules/@noble/hashes",
      hono: "node_modules/hono/dist/router",
      "ipaddr.js": "ipaddr: ",
      isbot: "node_modules/isbot",
    };
    const page = readFileSync(join(root, "THIRD-PARTY.md"), "utf8");
    for (const [name, marker] of Object.entries(markers)) {
      const containing = subpaths.filter((path) => {
        const { node, workerd, default: file } = manifest.exports[path].import;
        return [node, workerd, file].some((entry) => entry && codeOf(join(root, entry)).includes(marker));
      });
      const section = page.split(`\n## ${name}\n`)[1]?.split("\n```")[0] ?? "";
      const named = [...section.matchAll(/`sluice(\/[\w.-]+)?`/g)].map(([, path = ""]) => `.${path}`);
      expect(named.sort(), name).toEqual(containing.sort());
      expect(named.length, name).toBeGreaterThan(0);
    }
  });

  it("builds exactly the files that package.json declares", () => {
    const declared = subpaths.flatMap((path) => {
      const builds: Record<string, string>[] = Object.values(manifest.exports[path]);
      return builds.flatMap((conditions) => Object.values(conditions));
    });
    const others = [manifest.main, manifest.module, manifest.types];
    for (const file of [...declared, ...others]) expect(existsSync(join(root, file)), file).toBe(true);
    const entries = readdirSync(join(root, "dist"), { recursive: true, encoding: "utf8" }).filter(
      (file) => /\.c?js$/.test(file) && !/-[\w-]{8}\.c?js$/.test(file),
    );
    expect(entries.map((file) => `./dist/${file}`).sort()).toEqual(
      [...new Set(declared.filter((file) => /\.c?js$/.test(file)))].sort(),
    );
  });

  it("has no dependencies, no side effects and no unexpected files in the tarball", () => {
    expect(manifest.dependencies).toBeUndefined();
    expect(manifest.sideEffects).toBe(false);
    const files = run("tar", ["-tzf", tarball]).trim().split("\n");
    const unexpected = files.filter(
      (file) =>
        !/^package\/(dist\/.*\.(c?js|c?js\.map|d\.c?ts)|package\.json|rules\.schema\.json|README\.md|LICENSE|CHANGELOG\.md|THIRD-PARTY\.md)$/.test(
          file,
        ),
    );
    expect(unexpected).toEqual([]);
    for (const needed of ["README.md", "LICENSE", "CHANGELOG.md", "THIRD-PARTY.md", "rules.schema.json"])
      expect(files).toContain(`package/${needed}`);
  });

  it("includes the licence of every bundled package", () => {
    // The package has no dependencies, so every package that the source imports is bundled.
    const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" });
    const source = files.filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));
    const imports = source.flatMap((file) => [
      ...readFileSync(join(root, "src", file), "utf8").matchAll(
        /^(?:import|export|\}).* from "(((?:@[^/"]+\/)?[^./"][^/"]*)[^"]*)/gm,
      ),
    ]);
    // Frameworks are peer dependencies, and a runtime provides its own modules. A part of hono is bundled.
    const outside = [
      ...Object.keys(manifest.peerDependencies),
      "hono/utils/http-status",
      "node:http",
      "cloudflare:workers",
    ];
    const atRunTime = imports.filter(([, specifier]) => !outside.includes(specifier as string));
    const bundled = [...new Set(atRunTime.map(([, , name]) => name as string))];
    expect(bundled.sort()).toEqual(["@noble/hashes", "hono", "ipaddr.js", "isbot"]);
    const notices = readFileSync(join(root, "THIRD-PARTY.md"), "utf8");
    for (const name of bundled) {
      expect(notices).toContain(readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8").trim());
    }
  });

  it("contains no path of the build machine and no import of Node's modules", () => {
    const text = readdirSync(join(root, "dist"), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(c?js|c?ts|map)$/.test(file))
      .map((file) => readFileSync(join(root, "dist", file), "utf8"))
      .join("\n");
    expect(text).not.toContain(root);
    // The types of node:http are the only import from Node.
    expect(text.match(/from "node:.*/g)).toEqual(text.match(/from "node:http";$/gm));
    expect(text).not.toMatch(/^import (?!.*ServerResponse).*from "node:/m);
    expect(text).not.toMatch(/require\("node:/);
    // esbuild prints a warning for each of them.
    expect(text).not.toMatch(/^(?:import "|require\()/m);
  });

  it("passes publint and attw", () => {
    run(bin("publint"), ["run", tarball, "--strict"], root);
    run(bin("attw"), [tarball, "--no-color"], root);
  });

  it("can be imported from ESM", () => {
    writeFileSync(
      join(project, "esm.js"),
      `import { memoryRateLimiter } from "sluice"; import { decide } from "sluice/algorithms"; import { rateLimitHeaders } from "sluice/http"; import { fakeClock } from "sluice/testing";
       const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 1 }, { clock: fakeClock() });
       const seen = [1, 2, 3].map(() => limiter.consumeSync("k").allowed);
       console.log(JSON.stringify([seen, typeof decide, Object.keys(rateLimitHeaders(limiter.consumeSync("k"), limiter.getPolicy()))]));`,
    );
    expect(JSON.parse(run(process.execPath, ["esm.js"]))).toEqual([
      [true, true, false],
      "function",
      ["RateLimit-Policy", "RateLimit"],
    ]);
  });

  it("can be required from CommonJS", () => {
    writeFileSync(
      join(project, "cjs.cjs"),
      `const { memoryRateLimiter, SluiceError } = require("sluice"); const { tooManyRequests } = require("sluice/http");
       const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: 1 });
       limiter.consumeSync("k");
       let code; try { limiter.consumeSync("k", -1); } catch (error) { code = error instanceof SluiceError && error.code; }
       console.log(tooManyRequests(limiter.consumeSync("k"), limiter.getPolicy()).status, code);`,
    );
    expect(run(process.execPath, ["cjs.cjs"]).trim()).toBe("429 invalid-cost");
  });

  it.each([
    ["nodenext", "nodenext"],
    ["esnext", "bundler"],
  ])("type-checks with exactOptionalPropertyTypes and without skipLibCheck (%s, %s)", (module, moduleResolution) => {
    writeFileSync(join(project, "use.ts"), CONSUMER);
    const args = [
      "--noEmit",
      "--strict",
      "--exactOptionalPropertyTypes",
      "--noUncheckedIndexedAccess",
      "--target",
      "es2022",
      "--lib",
      "es2022",
    ];
    expect(run(bin("tsc"), [...args, "--module", module, "--moduleResolution", moduleResolution, "use.ts"])).toBe("");
  });

  it("type-checks with the types of Node and without those of browsers", () => {
    const imports = subpaths
      .filter((path) => !WITH_TYPES_OF_OTHERS.includes(path))
      .map((path, i) => `import * as s${i} from "${path.replace(".", "sluice")}"; export { s${i} };`);
    writeFileSync(join(project, "node.ts"), imports.join("\n"));
    const types = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
    const args = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2023", "--module", "nodenext", ...types];
    expect(run(bin("tsc"), [...args, "node.ts"])).toBe("");
  });

  it("is tree-shakeable: one import does not include the rest", async () => {
    const bytes = await bundle(`import { tokenBucket } from "sluice"; globalThis.x = tokenBucket;`);
    expect(bytes.min).toBeLessThan(5600);
  });

  it("bundles isbot only with userAgentBots", async () => {
    const lists = `import * as abuse from "sluice/abuse"; globalThis.x = [abuse.ipList, abuse.keyList, abuse.headerSignal, abuse.cloudflareBots];`;
    const bots = `import { userAgentBots } from "sluice/abuse"; globalThis.x = userAgentBots;`;
    expect((await bundle(lists)).code).not.toContain("lighthouse");
    expect((await bundle(bots)).code).toContain("lighthouse");
  });

  it("bundles the dashboard only if it is used", async () => {
    const observer = await bundle(`import { createObserver } from "sluice/observe"; globalThis.x = createObserver;`);
    const both = await bundle(
      `import { createObserver, dashboard } from "sluice/observe"; globalThis.x = [createObserver, dashboard];`,
    );
    expect(observer.code).not.toMatch(/<!doctype html>|sluice-dashboard|EventSource|scope="col"|frame-ancestors/);
    expect(both.code).toMatch(/<!doctype html>/);
    expect(both.gzip - observer.gzip).toBeLessThanOrEqual(DASHBOARD_BUDGET);
  });

  it("keeps the memory limiter within its size budget", async () => {
    const { gzip } = await bundle(`import { memoryRateLimiter } from "sluice"; globalThis.x = memoryRateLimiter;`);
    expect(gzip).toBeLessThanOrEqual(BUDGETS.memory);
  });

  it.each([
    ["combine", "combine", BUDGETS.combine],
    ["holds", "hold, settle, concurrency", BUDGETS.holds],
    ["penalties", "strike, penalty", BUDGETS.penalties],
  ])("keeps the memory limiter with %s within its size budget", async (_, names, budget) => {
    const { gzip } = await bundle(
      `import { memoryRateLimiter, ${names} } from "sluice"; globalThis.x = [memoryRateLimiter, ${names}];`,
    );
    expect(gzip).toBeLessThanOrEqual(budget);
  });

  it("keeps Durable Objects within their size budget", async () => {
    const { gzip } = await bundle(
      `import { durableObjectRateLimiter, RateLimiterDO } from "sluice/cloudflare"; globalThis.x = [durableObjectRateLimiter, RateLimiterDO];`,
    );
    expect(gzip).toBeLessThanOrEqual(BUDGETS.objects);
  });

  it("bundles a memory limiter without the code of holds and penalties", async () => {
    const { code } = await bundle(`import { memoryRateLimiter } from "sluice"; globalThis.x = memoryRateLimiter;`);
    // The members by which states and charges with holds are recognised, one hint, and numbers of compiled policies.
    const words = new Set(code.match(/\w*(?:hold|lease|strike|settle)\w*/gi));
    expect([...words].sort()).toEqual(["hold", "holdTerms", "holds", "holdsOnly", "maxHolds", "release"]);
  });

  it("keeps a Redis limiter within its size budget", async () => {
    const { gzip } = await bundle(
      `import { createLimiter } from "sluice"; import { redisStore } from "sluice/redis"; globalThis.x = [createLimiter, redisStore];`,
    );
    expect(gzip).toBeLessThanOrEqual(REDIS_BUDGET);
  });

  it("keeps idempotency stores within their size budgets", async () => {
    const memory = await bundle(
      `import { memoryIdempotencyStore } from "sluice/idempotency"; globalThis.x = memoryIdempotencyStore;`,
    );
    const redis = await bundle(
      `import { redisIdempotencyStore } from "sluice/redis"; globalThis.x = redisIdempotencyStore;`,
    );
    expect(memory.gzip).toBeLessThanOrEqual(IDEMPOTENCY_BUDGETS.memory);
    expect(redis.gzip).toBeLessThanOrEqual(IDEMPOTENCY_BUDGETS.redis);
  });

  it("keeps an HTTP middleware within its size budget", async () => {
    const { gzip } = await bundle(`import { rateLimit } from "sluice/express"; globalThis.x = rateLimit;`);
    expect(gzip).toBeLessThanOrEqual(MIDDLEWARE_BUDGET);
  });

  it("keeps an observer and its bridges within their size budgets", async () => {
    const sizeWith = async (...imports: (readonly [names: string, subpath: string])[]) => {
      const all = [["rateLimit", "express"], ["redisRateLimiter", "redis"], ...imports] as const;
      const lines = all.map(([names, subpath]) => `import { ${names} } from "sluice/${subpath}";`);
      return (await bundle(`${lines.join("\n")}\nglobalThis.x = [${all.map(([names]) => names)}];`)).gzip;
    };
    const observer = ["createObserver, jsonLog", "observe"] as const;
    const observed = await sizeWith(observer);
    const prometheus = await sizeWith(observer, ["prometheusMetrics", "prometheus"]);
    const otel = await sizeWith(observer, ["otelMetrics, otelSpans", "otel"]);
    expect(observed - (await sizeWith())).toBeLessThanOrEqual(OBSERVE_BUDGETS.observe);
    expect(prometheus - observed).toBeLessThanOrEqual(OBSERVE_BUDGETS.prometheus);
    expect(otel - observed).toBeLessThanOrEqual(OBSERVE_BUDGETS.otel);
  });

  it("adds idempotent to a bundle only if it is used, within its size budget", async () => {
    const limited = await bundle(`import { rateLimit } from "sluice/express"; globalThis.x = rateLimit;`);
    const both = await bundle(
      `import { idempotent, rateLimit } from "sluice/express"; globalThis.x = [idempotent, rateLimit];`,
    );
    expect(limited.code).not.toContain("Idempotent-Replayed");
    expect(both.code).toContain("Idempotent-Replayed");
    expect(both.gzip - limited.gzip).toBeLessThanOrEqual(IDEMPOTENT_BUDGET);
    const stores = await bundle(`import * as all from "sluice/idempotency"; globalThis.x = all;`);
    expect(stores.code).not.toContain("Idempotent-Replayed");
  });

  it.each([
    ["express", "node"],
    ["fastify", "node"],
    ["koa", "node"],
    ["hono", "fetch"],
    ["h3", "fetch"],
    ["sveltekit", "fetch"],
    ["react-router", "fetch"],
    ["next", "fetch"],
    ["netlify", "fetch"],
  ])("keeps sluice/%s within 1.5 kB of sluice/%s", async (framework, base) => {
    const sizeOf = async (name: string) =>
      (await bundle(`import * as all from "sluice/${name}"; globalThis.x = all;`)).gzip;
    expect((await sizeOf(framework)) - (await sizeOf(base))).toBeLessThanOrEqual(FRAMEWORK_BUDGET);
  });
});

/**
 * Gzip bytes of one middleware: the memory limiter, addresses with ipaddr.js, headers, tokens. The goal is 11 000; the
 * budget is the current size, to notice growth. About 4200 are for the preflight budget, the one-time reports and the
 * errors for misuse, 1500 for policies as text, 3000 for several limits per request with keys of their own, 150 for
 * state that the two builds share, 9400 for holds of requests, 600 for answers, added fields and captures, 500 for what
 * rules need of it, 350 for errors that name six more frameworks and for middleware that end before the response, 80 for
 * ranges whose problems are returned and not thrown, 750 for what abuse prevention needs of it, 650 for observers, 1550
 * for successes that handlers report, deadlines of callbacks, blocked preflights and exact waits, 350 for disconnects while a body is
 * unread.
 */
const MIDDLEWARE_BUDGET = 50_250;
/**
 * Gzip bytes that `idempotent` adds to `rateLimit` in one bundle. The goal is 4000; the budget is the current size, to notice
 * growth. About 2400 are for SHA-256, 1900 for deadlines and the circuit breaker, 1400 for capturing responses, and 1300
 * for the validation of options, 250 for observers, 900 for reading a response after its replay limit, shared polls and deep JSON.
 */
const IDEMPOTENT_BUDGET = 13_000;
/** Gzip bytes that a framework's middleware may add to that of its kind of server, which has the same gate and responses. */
const FRAMEWORK_BUDGET = 1500;
/**
 * Gzip bytes of the memory limiter with all five algorithms, alone and with what an application may add to it, and of
 * Durable Objects. The budgets are the current sizes, to notice growth. In the memory limiter, about 1500 are for policies as text
 * with their errors and for refunds with their decision, 500 for the shares of policies and copies of keys, and 1600 for the group
 * engine and errors as sentences. Holds and penalties are in a bundle only if their functions are imported.
 */
const BUDGETS = { memory: 12_600, combine: 14_800, holds: 20_250, penalties: 13_830, objects: 31_950 };
/**
 * Gzip bytes of a limiter with the Redis store: the script, the failure options and HMAC-SHA-256 are included. About 1500
 * are for sliding logs in lists and for damaged values, 3000 for the group engine, the mode table and errors as sentences,
 * 1500 for reading buckets with holds and 4100 for holds, concurrency limits and penalties in the script, 150 for a connection
 * that idempotency stores share, 400 for observers, 520 for groups of takes in the script.
 */
const REDIS_BUDGET = 41_950;
/**
 * Gzip bytes that an observer with `jsonLog`, and then each bridge, adds to a middleware with Redis. The goals are 3000, 1000 and 1000;
 * the budgets are the current sizes. Without Redis, an observer adds 5000 more: HMAC-SHA-256 and the health of remote stores.
 */
const OBSERVE_BUDGETS = { observe: 8700, prometheus: 650, otel: 800 };
/**
 * Gzip bytes that `dashboard` adds to `createObserver` alone. About 9300 are for the page, and 12 700 for algorithms and
 * addresses, which an application with a middleware has anyway.
 */
const DASHBOARD_BUDGET = 28_600;
/** Gzip bytes of an idempotency store: in memory, and in Redis with its script and HMAC-SHA-256. */
const IDEMPOTENCY_BUDGETS = { memory: 4120, redis: 8610 };

/** Bundles an entry in the empty project and returns the sizes in bytes. */
async function bundle(entry: string): Promise<{ code: string; min: number; gzip: number }> {
  const file = join(project, "entry.js");
  writeFileSync(file, entry);
  const result = await build({
    root: project,
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      minify: true,
      modulePreload: false,
      rollupOptions: { input: file, external: ["h3", "@opentelemetry/api", "cloudflare:workers"] },
    },
  });
  const { output } = result as unknown as { output: [{ code: string }] };
  const [{ code }] = output;
  return { code, min: code.length, gzip: gzipSync(code, { level: 9 }).length };
}

const CONSUMER = `
import { combine, consumeAll, createLimiter, fixedWindow, memoryRateLimiter, memoryStore, tokenBucket } from "sluice";
import type { Decision, Policy, RateLimiter } from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";
import { redisRateLimiter, redisStore } from "sluice/redis";
import type { IoredisLike, NodeRedisLike } from "sluice/redis";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { upstashRateLimiter } from "sluice/upstash";

declare const ioredis: IoredisLike;
declare const nodeRedis: NodeRedisLike;
const remote: RateLimiter = createLimiter({ policy: tokenBucket("1/s"), store: redisStore(ioredis, { ttlMs: "1h" }), onStoreError: "closed" });
const shortcut: RateLimiter = redisRateLimiter(nodeRedis, tokenBucket("1/s"), { instances: 4, onEvent: ({ type, policy }) => void [type, policy] });
// @ts-expect-error a remote store has no consumeSync
createLimiter({ policy: tokenBucket("1/s"), store: redisStore(ioredis) }).consumeSync("k");
void [remote, shortcut, upstashRateLimiter];

const store = memoryStore({ maxKeys: 10 });
const burst = createLimiter({ policy: tokenBucket("10/s", { burst: 50 }), store });
const daily: RateLimiter = createLimiter({ policy: fixedWindow("1000/1d"), store });
const both: RateLimiter = combine([burst, daily]);
const sync: Decision = combine([burst, memoryRateLimiter({ capacity: 1, tokensPerSecond: "3/h" })]).consumeSync("k");

if (sync.allowed) {
  const none: undefined = sync.retryAfterMs;
  const delay: number | undefined = sync.delayMs;
  void [none, delay];
} else {
  const wait: number | null = sync.retryAfterMs;
  const { status } = tooManyRequests(sync, both.getPolicies?.() ?? both.getPolicy());
  void [wait, status];
}
const { allowed, retryAfterMs } = await both.consume("k", 2);
void [allowed, retryAfterMs, rateLimitHeaders(sync, burst.getPolicy()), consumeAll([{ limiter: burst, key: "k" }])];

// A limiter implements the interface of @ws-kit/rate-limit.
interface KitLimiter {
  consume(key: string, cost: number): Promise<{ allowed: true; remaining: number } | { allowed: false; remaining: number; retryAfterMs: number | null }>;
  getPolicy(): { capacity: number; tokensPerSecond: number; prefix?: string };
  dispose?(): void | Promise<void>;
}
const kit: KitLimiter = both;
void kit;

// @ts-expect-error a promise has no allowed
if (burst.consume("k").allowed) void 0;
// @ts-expect-error members of another algorithm
const mixed: Policy = { capacity: 1, tokensPerSecond: 1, windowMs: 5 };
// @ts-expect-error a window needs a limit
const half: Policy = { algorithm: "fixed-window", windowMs: "1h" };
// @ts-expect-error a decision is readonly
sync.remaining = 5;
// @ts-expect-error consumeSync is optional
daily.consumeSync("k").allowed;
void [mixed, half, describeRateLimiter, fakeClock, storeSuite];
`;
