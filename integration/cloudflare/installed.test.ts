/** The examples for Cloudflare as a user has them: copied, the packed package installed, with wrangler. Needs `npm run build`. */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, burst, expectBucket, newAddress } from "./clients.ts";
import { type Dev, startDev, wrangler } from "./wrangler.ts";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const read = (path: string) => JSON.parse(readFileSync(path, "utf8"));
const place = mkdtempSync(join(tmpdir(), "sluice-cloudflare-"));
const home = join(place, "home");
const tsc = "node_modules/typescript/bin/tsc";
/** What the examples name as their tools, and where the same versions are. */
const tools: Readonly<Record<string, string>> = {
  "@cloudflare/workers-types": here,
  typescript: root,
  wrangler: here,
};
const examples = {
  "cloudflare-worker": ["RATE_LIMITER"],
  "cloudflare-kv": ["RATE_LIMITER", "KV"],
};

/** What a command printed; if it failed, that is the error. */
async function run(command: string, args: string[], cwd: string): Promise<string> {
  const running = promisify(execFile)(command, args, { cwd, timeout: 60_000 });
  return (await running.catch(({ message, stdout }) => Promise.reject(new Error(`${message}${stdout}`)))).stdout;
}

/** Copies an example and installs what it needs: the package as it is packed, and its tools by links. */
async function copied(name: string, tarball: string): Promise<string> {
  const folder = join(place, name);
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
  const packed = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", place], root);
  const tarball = join(place, JSON.parse(packed)[0].filename);
  await Promise.all(Object.keys(examples).map((name) => copied(name, tarball)));
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

describe.each(Object.entries(examples))("%s, installed", (name, bindings) => {
  const folder = join(place, name);

  it("names this version, and the tools that it is tried with", () => {
    const { dependencies, devDependencies } = read(join(root, "examples", name, "package.json"));
    const { version } = read(join(root, "package.json"));
    expect(dependencies).toEqual({ sluice: `^${version}` });
    // Until it is published, a copy of the folder is installed with the packed file.
    const readme = readFileSync(join(root, "examples", name, "README.md"), "utf8");
    expect(readme).toContain(`npm install ../sluice-${version}.tgz`);
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
    const said = await wrangler(folder, home, "deploy", "--dry-run");
    for (const binding of bindings) expect(said).toContain(`env.${binding} `);
    expect(said).not.toMatch(/warning|error/i);
  });
});

describe("wrangler dev", () => {
  async function withDev(name: string, use: (dev: Dev) => Promise<void>): Promise<void> {
    const dev = await startDev(join(place, name), home);
    try {
      await use(dev);
      expect(dev.output()).not.toMatch(/warning|error/i);
    } finally {
      await dev.stop();
    }
  }

  it("serves cloudflare-worker: the loop of its README, a burst, the debug route", async () => {
    writeFileSync(join(place, "cloudflare-worker/.dev.vars"), 'DEBUG_SECRET="of this machine"\n');
    await withDev("cloudflare-worker", async ({ url, output }) => {
      const api = new URL("/api", url);
      const start = performance.now();
      const statuses: number[] = [];
      // As curl does it: without a header, so that the address is that of the socket.
      for (let i = 0; i < 15; i++) statuses.push((await fetch(api)).status);
      const refilled = Math.floor((performance.now() - start) / 200);
      expect(statuses.slice(0, 10)).toEqual(Array(10).fill(200));
      const denied = statuses.filter((status) => status === 429).length;
      expect(denied).toBeGreaterThanOrEqual(5 - refilled);
      expectBucket(await burst(api, 15), 15);

      const look = (secret: string) =>
        ask(new URL("/debug/bucket?key=ip:127.0.0.1", url), newAddress(), { Authorization: `Bearer ${secret}` });
      expect((await look("wrong")).status).toBe(404);
      expect(await (await look("of this machine")).json()).toMatchObject({ key: "ip:127.0.0.1", limit: 10 });
      expect(output()).toContain('{"path":"/api","keyKind":"ip","policy":"api","allowed":true,"remaining":9}');
      expect(output()).not.toContain("of this machine");
    });
  });

  it("serves cloudflare-kv: both routes stop at 100", async () => {
    await withDev("cloudflare-kv", async ({ url }) => {
      for (const path of ["/kv", "/exact"]) {
        const { passed, denied } = await burst(new URL(path, url), 120);
        expect({ path, passed, denied }).toEqual({ path, passed: 100, denied: 20 });
      }
    });
  });
});
