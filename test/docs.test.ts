/**
 * The documentation against the code: every `ts` and `js` block compiles and runs, and prints what its
 * comments say; generated files are fresh; every error code is explained; every link leads somewhere.
 *
 * A block stands alone unless its fence says "ts continue", which goes on from the block before. In
 * `console.log(value); // text` the text is what has to be printed, white space aside. Suites that a
 * block gives to node:test or vitest are run too. Blocks that are only shown have another language, or
 * say "js before": how something was done with a library that is not installed here. Those are parsed; the Workers among them
 * run in cloudflare/replaced-workers.test.ts, and the tests of a Worker in integration/workers-vitest. A
 * "ts worker" is a Worker: it runs in workerd, with the bindings of test/cloudflare/bindings.d.ts, and is asked once;
 * if it has a `class Room`, over a WebSocket too. Blocks for other runtimes are left to integration/ws/docs.test.ts,
 * and files of apps ("ts framework") to framework-pages.test.ts and the tests in integration/.
 *
 * Blocks find a Redis of their own in REDIS_URL, and the same one as Upstash has it over REST. They have
 * to close what they open, in a hidden teardown: readers paste what they see. `<!-- ts setup` before a block and
 * `<!-- ts teardown` after it hold code that is compiled and run with the block, and that no renderer shows.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Server, type Socket } from "node:net";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { format, promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { referencePage } from "../docs/.vitepress/pages.js";
import { makeLists } from "../scripts/list-pages.js";
import { subpaths } from "../scripts/subpaths.js";
import { ERRORS_PAGE } from "../src/base/errors.ts";
import { startWorkerd } from "./cloudflare/workerd.ts";
import { freePort } from "./servers/free-port.js";
import { hasRedis, withRedis, withWorkerd } from "./servers/needs.ts";
import { type RedisServer, startRedis } from "./servers/redis-server.js";
import { until } from "./servers/until.js";
import { startUpstashBridge, type UpstashBridge } from "./servers/upstash-bridge.js";
import {
  flat,
  nameOf,
  onPort,
  pages,
  parseSnippets,
  promisesOf,
  ROOT,
  read,
  says,
  snippetsOfKind,
  stagedCode,
} from "./snippets.ts";

/** Ignored by git, and inside the project, so that vitest transforms what it imports from there. */
const CACHE = join(ROOT, ".cache", `docs-${process.pid}`);

/** What a running snippet talks to, as a global. */
interface Stage {
  log(line: number, ...values: unknown[]): void;
  readonly cases: { title: string; body(): unknown }[];
}

const snippets = snippetsOfKind("node", "worker");

const { homepage, repository } = JSON.parse(read("package.json"));
/** "git+https://host/owner/name.git" in package.json -> "https://host/owner/name" */
const repositoryUrl: string = repository.url.replace(/^git\+|\.git$/g, "");
/** Where npm and GitHub load pictures from. */
const rawUrl = `${repositoryUrl.replace("://github.com/", "://raw.githubusercontent.com/")}/main/`;

const RUNNER = `import { expect } from "vitest";
let path = "";
export function describe(name, body) {
  const outer = path;
  path += name + " > ";
  body();
  path = outer;
}
export function it(name, body) {
  globalThis.stage.cases.push({ title: path + name, body });
}
export { expect, it as test };
`;

describe("snippets", () => {
  let redis: RedisServer | undefined;
  let bridge: UpstashBridge | undefined;

  beforeAll(async () => {
    if (hasRedis) {
      redis = await startRedis();
      bridge = await startUpstashBridge(redis.port);
      Object.assign(process.env, {
        REDIS_URL: redis.url,
        UPSTASH_REDIS_REST_URL: bridge.url,
        UPSTASH_REDIS_REST_TOKEN: bridge.token,
      });
    }
    mkdirSync(join(CACHE, "run"), { recursive: true });
    for (const snippet of snippets) {
      writeFileSync(join(CACHE, `${nameOf(snippet)}.${snippet.extension}`), snippet.lines.join("\n"));
      const code = stagedCode(snippet).replace(/from "(?:node:test|vitest)"/g, 'from "./runner.js"');
      writeFileSync(join(CACHE, "run", `${nameOf(snippet)}.${snippet.extension}`), code);
    }
    writeFileSync(join(CACHE, "run/runner.js"), RUNNER);
    const config = {
      extends: "../../test/tsconfig.json",
      compilerOptions: { allowJs: true, checkJs: true },
      files: [
        ...snippets.map((snippet) => `${nameOf(snippet)}.${snippet.extension}`),
        "../../src/stores/cloudflare/workers.d.ts",
        "../../test/cloudflare/bindings.d.ts",
      ],
      include: [],
    };
    writeFileSync(join(CACHE, "tsconfig.json"), JSON.stringify(config));
  });

  afterAll(async () => {
    rmSync(CACHE, { recursive: true });
    await bridge?.stop();
    await redis?.stop();
  });

  /** Who is connected to Redis, apart from the one who asks. */
  async function guests(): Promise<string[]> {
    if (!redis) return [];
    const clients = String(await redis.call("CLIENT", "LIST", "TYPE", "normal"))
      .trim()
      .split("\n");
    return clients
      .filter((client) => !client.includes(" cmd=client|list "))
      .map((client) => client.split(" ")[0] ?? "");
  }

  /** How many scripts were run. */
  async function scripts(): Promise<number> {
    if (!redis) return 0;
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await redis.call("INFO", "commandstats")))?.[1] ?? 0);
  }

  it("compile under the strictness of the project", async () => {
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const run = promisify(execFile)(process.execPath, [compiler, "--noEmit", "--pretty", "false", "-p", CACHE]);
    const { stdout } = await run.catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });

  for (const snippet of snippetsOfKind("worker")) {
    it(`${snippet.page}:${snippet.line} runs as a Worker and prints what it says`, withWorkerd, async () => {
      const file = join(CACHE, "run", `${nameOf(snippet)}.${snippet.extension}`);
      // What the Worker prints is given out by another path of it. A class that it exports itself stands before ours.
      const staged = file.replace(/\.ts$/, "-staged.ts");
      writeFileSync(
        staged,
        `const lines = [];
        globalThis.stage = { log: (line, ...values) => lines.push([line, values.map(text).join(" ")]) };
        const text = (value) => typeof value === "string" ? value : JSON.stringify(value);
        export { RateLimiterDO } from "sluice/cloudflare";
        export * from ${JSON.stringify(file)};
        export default {
          async fetch(request, ...more) {
            const { default: worker } = await import(${JSON.stringify(file)});
            return request.url.endsWith("/printed") ? Response.json(lines) : worker.fetch(request, ...more);
          },
        };`,
      );
      const hasRoom = says(snippet, "class Room");
      const workerd = await startWorkerd(pathToFileURL(staged), {
        durableObjects: {
          RATE_LIMITER: { className: "RateLimiterDO", useSQLite: true },
          ...(hasRoom && { ROOM: { className: "Room", useSQLite: true } }),
        },
        kvNamespaces: ["KV"],
        ratelimits: { RL: { namespace_id: "1001", simple: { limit: 100, period: 60 } } },
      });
      try {
        const response = await workerd.fetch("/");
        const told = await response.text();
        if (hasRoom) {
          // What it has to say to somebody who wants no WebSocket is its own affair.
          expect(response.status, told).toBeLessThan(500);
          expect(response.status, told).not.toBe(404);
          await visit(workerd.url);
        } else {
          expect(response.status, told).toBe(200);
        }
        const printed = new Map((await (await workerd.fetch("/printed")).json()) as [number, string][]);
        for (const [line, promise] of promisesOf(snippet)) {
          expect(flat(printed.get(line) ?? "nothing"), `${snippet.page}:${line}`).toBe(promise);
        }
      } finally {
        await workerd.stop();
      }
    });
  }

  for (const snippet of snippetsOfKind("node")) {
    const usesRedis = ["REDIS_URL", "UPSTASH_REDIS_REST_URL", "fromEnv"].some((text) => says(snippet, text));
    it(`${snippet.page}:${snippet.line} runs and prints what it says`, usesRedis ? withRedis : {}, async () => {
      const promises = promisesOf(snippet);
      const printed = new Map<number, string>();
      const stage: Stage = {
        cases: [],
        log(line, ...values) {
          const text = flat(format(...values));
          printed.set(line, text);
          if (promises.has(line)) expect(text, `${snippet.page}:${line}`).toBe(promises.get(line));
        },
      };
      Object.assign(globalThis, { stage });
      const before = await guests();
      const asked = await scripts();
      const close = closingServers();
      const file = join(CACHE, "run", `${nameOf(snippet)}.${snippet.extension}`);
      writeFileSync(file, onPort(readFileSync(file, "utf8"), await freePort()));
      await import(/* @vite-ignore */ file);
      for (const { title, body } of stage.cases) {
        try {
          await body();
        } catch (error) {
          throw new Error(`${title}: ${(error as Error).message}`, { cause: error });
        }
      }
      for (const [line, promise] of promises) expect(printed.get(line), `${snippet.page}:${line}`).toBe(promise);
      close();
      if (usesRedis) {
        // Without Redis the limiter decides by itself, and many a promise would be kept.
        expect(await scripts(), `${snippet.page}:${snippet.line} asks Redis`).toBeGreaterThan(asked);
      }
      if (says(snippet, "REDIS_URL")) {
        await until(`${snippet.page}:${snippet.line} does not close its client`, async () => {
          const left = (await guests()).filter((guest) => !before.includes(guest));
          return left.length > 0 ? left.join(", ") : undefined;
        });
      }
    });
  }

  it.each(snippetsOfKind("before").map((snippet) => [`${snippet.page}:${snippet.line}`, snippet] as const))(
    "%s shows what was before, and is JavaScript",
    async (_, snippet) => {
      const file = join(CACHE, `${nameOf(snippet)}.mjs`);
      writeFileSync(file, snippet.lines.join("\n"));
      await promisify(execFile)(process.execPath, ["--check", file]);
    },
  );

  it("run with the hidden setup before them and the teardown after them", () => {
    const page = [
      "<!-- ts setup",
      "const a = 1;",
      "-->",
      "```ts",
      "a;",
      "```",
      "",
      "<!-- ts teardown end(); -->",
      "text",
    ];
    const [snippet, ...more] = parseSnippets("page", page.join("\n"));
    expect(more).toEqual([]);
    expect(snippet).toMatchObject({ line: 4, lines: ["", "const a = 1;", "", "", "a;", "", "", "end();"] });
  });

  it.each([
    ["a setup that is not beside its block", "<!-- ts setup a; -->\ntext\n```ts\n```"],
    ["a setup before a block that is only shown", "<!-- ts setup a; -->\n```sh\n```"],
    ["a setup without a block", "<!-- ts setup a; -->"],
    ["a teardown that is not beside its block", "```ts\n```\ntext\n<!-- ts teardown a; -->"],
    ["a teardown after a block that is only shown", "```sh\n```\n<!-- ts teardown a; -->"],
    ["a comment without an end", "```ts\n```\n<!-- ts teardown\na;"],
    ["a comment of another name", "<!-- ts set-up a; -->\n```ts\n```"],
  ])("refuse %s", (_, page) => {
    expect(() => parseSnippets("page", page)).toThrow(/^page/);
  });

  it("run in tabs, with the hidden code inside or outside of the group", () => {
    const page = [
      "<!-- ts setup const a = 1; -->",
      "::: code-group",
      "```ts [Express]",
      "a;",
      "```",
      "<!-- ts setup const b = 2; -->",
      "```ts worker [Hono]",
      "b;",
      "```",
      ":::",
      "<!-- ts teardown end(); -->",
    ];
    expect(parseSnippets("page", page.join("\n"))).toMatchObject([
      { line: 3, kind: "node", lines: ["const a = 1;", "", "", "a;"] },
      { line: 7, kind: "worker", lines: ["", "", "", "", "", "const b = 2;", "", "b;", "", "", "end();"] },
    ]);
  });

  it("show nothing that only a test needs", () => {
    for (const page of pages) {
      const shown = read(page).replace(/<!-- (?:ts|js) [\s\S]*?-->/g, "");
      for (const [block] of shown.matchAll(/^```(?:ts|js)(?! before)[\s\S]*?^```$/gm)) {
        expect(block, page).not.toMatch(/\b(?:redis|cluster|server|app|wss)\.(?:close|disconnect)\(\);$|=> void /m);
      }
    }
  });

  it("are marked as what they are", () => {
    // A block in one of these would look like code and be checked by nobody.
    for (const page of pages) {
      expect(read(page), page).not.toMatch(/^\s*```(?:typescript|javascript|tsx(?! framework$)|jsx|mts|mjs)/m);
    }
  });
});

describe("generated files are fresh", () => {
  it("the lists of pages and import paths: node scripts/list-pages.js", () => {
    for (const [file, text] of makeLists()) expect(read(file), file).toBe(text);
  });

  it("docs/algorithms/*.svg: node scripts/draw-algorithms.js", async () => {
    const { drawAlgorithms } = (await import(join(ROOT, "scripts/draw-algorithms.js"))) as {
      drawAlgorithms(): Map<string, string>;
    };
    const drawn = drawAlgorithms();
    expect(drawn.size).toBe(6);
    for (const [file, picture] of drawn) expect(read(`docs/algorithms/${file}`), file).toBe(picture);
  });

  it("docs/middleware/proxy-walk.svg: node scripts/draw-proxy-walk.js", async () => {
    const { drawProxyWalk } = (await import(join(ROOT, "scripts/draw-proxy-walk.js"))) as { drawProxyWalk(): string };
    expect(read("docs/middleware/proxy-walk.svg")).toBe(drawProxyWalk());
  });

  it("docs/websockets/steps.svg: node scripts/draw-websocket-steps.js", async () => {
    const { drawWebSocketSteps } = (await import(join(ROOT, "scripts/draw-websocket-steps.js"))) as {
      drawWebSocketSteps(): string;
    };
    expect(read("docs/websockets/steps.svg")).toBe(drawWebSocketSteps());
  });
});

describe("docs/errors.md", () => {
  const [, list = ""] = /export type ErrorCode =([^;]*);/.exec(read("src/base/errors.ts")) ?? [];
  const codes = [...list.matchAll(/"([a-z-]+)"/g)].map(([, code]) => code as string);
  const allHeadings = read("docs/errors.md")
    .split("\n")
    .flatMap((line, i) => (/^## [a-z_-]+$/.test(line) ? [{ code: line.slice(3), line: i + 1 }] : []));
  const headings = allHeadings.filter(({ code }) => !code.startsWith("sluice_"));

  it("is the page that messages link to, in the repository of package.json", () => {
    const { repository } = JSON.parse(read("package.json")) as { repository: { url: string } };
    const address = repository.url.replace(/^git\+/, "").replace(/\.git$/, "");
    expect(ERRORS_PAGE).toBe(`${address}/blob/main/docs/errors.md`);
  });

  it("has a heading for every warning that is used, and for no other", () => {
    const source = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).filter(
      (file) => /(?<!\.test)\.ts$/.test(file) && !file.endsWith("warnings.ts"),
    );
    const used = source.flatMap((file) =>
      [...read(`src/${file}`).matchAll(/"(SLUICE_[A-Z_]+)"/g)].map(([, code]) => code),
    );
    const known = [...read("src/base/warnings.ts").matchAll(/"(SLUICE_[A-Z_]+)"/g)].map(([, code]) => code);
    const explained = allHeadings
      .filter(({ code }) => code.startsWith("sluice_"))
      .map(({ code }) => code.toUpperCase());
    expect(explained.sort()).toEqual([...new Set(used)].sort());
    for (const code of used) expect(known).toContain(code);
  });

  it("has one heading for every code and no other", () => {
    expect(codes.length).toBeGreaterThan(0);
    expect(headings.map(({ code }) => code)).toEqual(codes);
  });

  // That the message is really produced is checked where the snippets run.
  it.each(headings)("$code has an example that produces its message", ({ code, line }) => {
    const end = headings.find((heading) => heading.line > line)?.line ?? Infinity;
    const own = snippets.filter(
      (snippet) => snippet.page === "docs/errors.md" && snippet.line > line && snippet.line < end,
    );
    const messages = own.flatMap((snippet) => [...promisesOf(snippet).values()]);
    expect(
      messages.some((message) => message.endsWith(`. See ${ERRORS_PAGE}#${code}`)),
      `a message that ends in "See ${ERRORS_PAGE}#${code}"`,
    ).toBe(true);
  });
});

describe("links", () => {
  const examples = [
    "",
    "ai-tokens/",
    "cloudflare-kv/",
    "cloudflare-worker/",
    "concurrency/",
    "monitoring/",
    "saas/",
  ].map((folder) => `examples/${folder}README.md`);
  const linking = [...pages, ...examples, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
  const linked = new Set<string>();
  const generated = subpaths.map(({ subpath }) => `${homepage}reference/${referencePage(subpath)}`);

  it.each(linking)("of %s lead somewhere", (page) => {
    for (const target of linksOf(page)) {
      // Pages of the reference are generated. What else is on the site has a file.
      if (target.startsWith(homepage)) {
        expect(generated, `${page} links to ${target}`).toContain(target);
        continue;
      }
      const link = localLink(page, target);
      if (!link) continue;
      const { file, anchor } = link;
      expect(existsSync(join(ROOT, file)), `${page} links to ${target}`).toBe(true);
      if (anchor !== undefined) expect(anchorsOf(file), `${page} links to ${target}`).toContain(anchor);
      if (file !== page) linked.add(file);
    }
  });

  // npm shows the README too, where a relative link depends on how npm resolves it.
  it("of README.md are absolute, or anchors of the page", () => {
    for (const target of linksOf("README.md")) expect(target).toMatch(/^(?:https:\/\/|#)/);
  });

  it("reach every page", () => {
    const homes = ["README.md", "docs/index.md"];
    expect(pages.filter((page) => !homes.includes(page) && !linked.has(page))).toEqual([]);
  });
});

describe("commands", () => {
  const scripts = ["package.json", "bench/package.json"].flatMap((file) => Object.keys(JSON.parse(read(file)).scripts));

  it.each([...pages, "CONTRIBUTING.md", "bench/README.md"])("of %s exist", (page) => {
    for (const [, run, short] of read(page).matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(test|start)\b)/g)) {
      expect(scripts, `${page} names npm ${run ?? short}`).toContain(run ?? short);
    }
  });
});

/** Says one thing over a WebSocket, and leaves when it was heard. */
async function visit(url: string): Promise<void> {
  const socket = new WebSocket(url.replace("http", "ws"));
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "say" }));
  // It is answered after what came before it.
  socket.ping();
  await Promise.race([once(socket, "pong"), once(socket, "close")]);
  // A page need not close what its client closes, which would be waited for.
  socket.terminate();
}

/**
 * Remembers the servers that are started from now on, to close those that are still there: pages need not do it. Nor
 * need they close connections, of which a WebSocket would stay.
 */
function closingServers(): () => void {
  const { listen } = Server.prototype;
  const started: Server[] = [];
  const connected: Socket[] = [];
  Server.prototype.listen = function (this: Server, ...args: unknown[]) {
    started.push(this);
    this.on("connection", (socket) => connected.push(socket));
    return listen.apply(this, args as [handle: unknown]);
  } as typeof listen;
  return () => {
    Server.prototype.listen = listen;
    for (const server of started) server.close();
    for (const socket of connected) socket.destroy();
  };
}

/** The file and the anchor that a link leads to, or undefined for another site. */
function localLink(page: string, target: string): { file: string; anchor: string | undefined } | undefined {
  const base = [`${repositoryUrl}/blob/main/`, `${repositoryUrl}/tree/main/`, rawUrl].find((url) =>
    target.startsWith(url),
  );
  if (base === undefined && /^[a-z]+:/.test(target)) return undefined;
  const [path = "", anchor] = (base === undefined ? target : target.slice(base.length)).split("#");
  const folder = base === undefined ? dirname(page) : "";
  return { file: path === "" ? page : relative(ROOT, join(ROOT, folder, path)), anchor };
}

/** A page without its code. */
function proseOf(page: string): string {
  return read(page).replace(/^\s*```[\s\S]*?^\s*```$/gm, "");
}

function linksOf(page: string): string[] {
  return [
    ...proseOf(page)
      .replace(/`[^`\n]*`/g, "")
      .matchAll(/\]\(([^)\s]+)\)|(?:href|src)="([^"]+)"/g),
  ].map(([, target, attribute]) => (target ?? attribute) as string);
}

/** The anchors of a page's headings, made as GitHub makes them. */
function anchorsOf(page: string): string[] {
  const seen = new Map<string, number>();
  return [...proseOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, "")
      .replaceAll(" ", "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
}
