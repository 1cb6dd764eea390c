/** The Cloudflare examples as users run them: copied, with the packed package and wrangler. Needs `npm run build`. */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { burst, expectBucket, newAddress, request } from "./clients.ts";
import { type Dev, startDev, startExampleCommand, wrangler } from "./wrangler.ts";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const read = (path: string) => JSON.parse(readFileSync(path, "utf8"));
const tempFolder = mkdtempSync(join(tmpdir(), "sluice-cloudflare-"));
const home = join(tempFolder, "home");
const tsc = "node_modules/typescript/bin/tsc";
/** The tools of the examples, and the folders in which they are installed. */
const tools: Readonly<Record<string, string>> = {
  "@cloudflare/workers-types": here,
  typescript: root,
  wrangler: here,
};
const examples = {
  "cloudflare-worker": ["RATE_LIMITER"],
  "cloudflare-kv": ["RATE_LIMITER", "KV"],
};

/** Runs a command and returns its output. The output of a failed command is part of the error. */
async function run(command: string, args: string[], cwd: string): Promise<string> {
  const running = promisify(execFile)(command, args, { cwd, timeout: 60_000 });
  return (await running.catch(({ message, stdout }) => Promise.reject(new Error(`${message}${stdout}`)))).stdout;
}

/** Copies an example, installs the packed package, and links its tools. */
async function copyExample(name: string, tarball: string): Promise<string> {
  const folder = join(tempFolder, name);
  const tracked = (path: string) => !/[/\\](node_modules|\.wrangler|\.dev\.vars)$/.test(path);
  cpSync(join(root, "examples", name), folder, { recursive: true, filter: tracked });
  const { devDependencies, ...manifest } = read(join(folder, "package.json"));
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball], folder);
  for (const tool of Object.keys(devDependencies)) {
    const link = join(folder, "node_modules", tool);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(tools[tool] as string, "node_modules", tool), link);
  }
  return folder;
}

beforeAll(async () => {
  if (!existsSync(join(root, "dist/cloudflare.js"))) throw new Error("dist/ is missing: npm run build");
  mkdirSync(home);
  const packed = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", tempFolder], root);
  const tarball = join(tempFolder, JSON.parse(packed)[0].filename);
  await Promise.all(Object.keys(examples).map((name) => copyExample(name, tarball)));
});
afterAll(() => rmSync(tempFolder, { recursive: true, force: true }));

describe.each(Object.entries(examples))("%s as installed", (name, bindings) => {
  const folder = join(tempFolder, name);

  it("depends on this version and on the tested tools", () => {
    const { dependencies, devDependencies } = read(join(root, "examples", name, "package.json"));
    const { version } = read(join(root, "package.json"));
    expect(dependencies).toEqual({ sluice: `^${version}` });
    // The README says that this version is not published.
    expect(readFileSync(join(root, "examples", name, "README.md"), "utf8")).toContain(
      `version ${version} is not on npm`,
    );
    const versions = Object.entries(tools).map(([tool, at]) => {
      const { dependencies, devDependencies } = read(join(at, "package.json"));
      return [tool, { ...dependencies, ...devDependencies }[tool]];
    });
    expect(devDependencies).toEqual(Object.fromEntries(versions));
  });

  it("passes tsc with Cloudflare's types", async () => {
    await run(process.execPath, [tsc, "-p", "."], folder);
  });

  it("is accepted by wrangler deploy --dry-run", async () => {
    const output = await wrangler(folder, home, "deploy", "--dry-run");
    for (const binding of bindings) expect(output).toContain(`env.${binding} `);
    expect(output).not.toMatch(/warning|error/i);
  });
});

describe.each(Object.keys(examples))("node examples/run.js %s", (name) => {
  it("installs this version without changing a tracked file, and serves it", async () => {
    const folder = join(root, "examples", name);
    rmSync(join(folder, "node_modules/sluice"), { recursive: true, force: true });
    const before = readFileSync(join(folder, "package.json"), "utf8");
    const dev = await startExampleCommand(name);
    try {
      const { version } = read(join(root, "package.json"));
      expect(read(join(folder, "node_modules/sluice/package.json")).version).toBe(version);
      const { passed, denied } = await burst(new URL(name === "cloudflare-kv" ? "/kv" : "/api", dev.url), 120);
      expect(passed).toBeGreaterThanOrEqual(10);
      expect(denied).toBeGreaterThan(0);
    } finally {
      await dev.stop();
    }
    expect(readFileSync(join(folder, "package.json"), "utf8")).toBe(before);
    expect(existsSync(join(folder, "package-lock.json"))).toBe(false);
  });
});

describe("wrangler dev", () => {
  async function withDev(name: string, run: (dev: Dev) => Promise<void>): Promise<void> {
    const dev = await startDev(join(tempFolder, name), home);
    try {
      await run(dev);
      expect(dev.output()).not.toMatch(/warning|error/i);
    } finally {
      await dev.stop();
    }
  }

  it("serves cloudflare-worker: the requests of its README, a burst, the debug route", async () => {
    writeFileSync(join(tempFolder, "cloudflare-worker/.dev.vars"), 'DEBUG_SECRET="local secret"\n');
    await withDev("cloudflare-worker", async ({ url, output }) => {
      const api = new URL("/api", url);
      const start = performance.now();
      const statuses: number[] = [];
      // Like curl, without a header: the IP address is that of the socket.
      for (let i = 0; i < 15; i++) statuses.push((await fetch(api)).status);
      const refilled = Math.floor((performance.now() - start) / 200);
      expect(statuses.slice(0, 10)).toEqual(Array(10).fill(200));
      const denied = statuses.filter((status) => status === 429).length;
      expect(denied).toBeGreaterThanOrEqual(5 - refilled);
      expectBucket(await burst(api, 15), 15);

      const inspect = (secret: string) =>
        request(new URL("/debug/bucket?key=ip:127.0.0.1", url), newAddress(), { Authorization: `Bearer ${secret}` });
      expect((await inspect("wrong")).status).toBe(404);
      expect(await (await inspect("local secret")).json()).toMatchObject({ key: "ip:127.0.0.1", limit: 10 });
      expect(output()).toContain('{"path":"/api","keyKind":"ip","policy":"api","allowed":true,"remaining":9}');
      expect(output()).not.toContain("local secret");
    });
  });

  it("serves cloudflare-kv: both routes admit 100 requests", async () => {
    await withDev("cloudflare-kv", async ({ url }) => {
      for (const path of ["/kv", "/exact"]) {
        const { passed, denied } = await burst(new URL(path, url), 120);
        expect({ path, passed, denied }).toEqual({ path, passed: 100, denied: 20 });
      }
    });
  });
});
