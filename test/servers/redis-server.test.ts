/** Tests that servers start, crash, pause and restart, and never outlive their program. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { withRedis } from "./needs.ts";
import { ensureRedis, freePort, startRedis } from "./redis-server.js";
import { connect } from "./resp.js";
import { startProcess } from "./server-process.js";
import { until } from "./until.js";

async function started(options?: Parameters<typeof startRedis>[0]) {
  const server = await startRedis(options);
  onTestFinished(server.stop);
  return server;
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits until a port is closed. A PID is no evidence: it exists until its parent reaps the process. */
const gone = (port: number) =>
  until(
    `port ${port} did not close`,
    async () =>
      connect(port).then(
        (connection) => {
          connection.close();
          return "it is open";
        },
        () => undefined,
      ),
    5000,
  );

/** A program that starts a server, prints its port and directory, and runs `then`. */
const program = (then: string) => [
  "--input-type=module",
  "-e",
  `import { startRedis } from ${JSON.stringify(new URL("redis-server.js", import.meta.url).href)};
   const server = await startRedis();
   console.log(JSON.stringify({ port: server.port, dir: server.dir }));
   ${then}`,
];

describe("a redis-server", withRedis, () => {
  it("listens on loopback only, stores nothing on disk and allows DEBUG", async () => {
    const server = await started();
    expect(server.url).toBe(`redis://127.0.0.1:${server.port}`);
    expect(await server.call("PING")).toBe("PONG");
    expect(await server.call("CONFIG", "GET", "bind")).toEqual(["bind", "127.0.0.1"]);
    expect(await server.call("CONFIG", "GET", "save")).toEqual(["save", ""]);
    expect(await server.call("DEBUG", "JMAP").catch(String)).not.toContain("not allowed");
    expect(`${await server.call("INFO", "server")}`).toContain(`process_id:${server.pid}\r`);
  });

  it("accepts additional options", async () => {
    const server = await started({ args: ["--maxmemory", "8mb", "--busy-reply-threshold", "300"] });
    expect(await server.call("CONFIG", "GET", "maxmemory")).toEqual(["maxmemory", `${8 * 2 ** 20}`]);
    expect(await server.call("CONFIG", "GET", "busy-reply-threshold")).toEqual(["busy-reply-threshold", "300"]);
  });

  it("restarts empty on the same port after a crash", async () => {
    const server = await started();
    const { pid } = server;
    await server.call("SET", "k", "v");
    await server.kill();
    expect(runs(pid)).toBe(false);
    expect(server.running).toBe(false);
    await expect(server.call("PING")).rejects.toThrow("ECONNREFUSED");
    await server.restart();
    expect(server.pid).not.toBe(pid);
    expect(server.running).toBe(true);
    expect(await server.call("GET", "k")).toBeNull();
  });

  it("pauses and resumes", async () => {
    const server = await started();
    const connection = await connect(server.port);
    onTestFinished(connection.close);
    server.pause();
    expect(server.running).toBe(false);
    let answered = false;
    const reply = connection.call("PING").finally(() => {
      answered = true;
    });
    const impatient = await connect(server.port, { timeoutMs: 50 });
    await expect(impatient.call("PING")).rejects.toThrow("did not answer");
    expect(answered).toBe(false);
    server.resume();
    expect(await reply).toBe("PONG");
  });

  it.each(["running", "paused", "killed", "in an endless script"])("stops when %s, twice", async (state) => {
    const server = await started();
    if (state === "paused") server.pause();
    if (state === "killed") await server.kill();
    const connection = state.startsWith("in") ? await connect(server.port) : undefined;
    const script = connection?.call("EVAL", "while true do end", 0).catch(String);
    if (connection)
      await until("no script ran", async () =>
        server.call("PING").then(
          () => "PONG",
          () => undefined,
        ),
      );
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    await script;
    expect(runs(server.pid)).toBe(false);
    expect(existsSync(server.dir)).toBe(false);
    await expect(server.restart()).rejects.toThrow("was stopped");
    expect(() => server.pause()).toThrow("is not running");
  });

  it("keeps a given directory", async () => {
    const dir = mkdtempSync(join(tmpdir(), "sluice-test-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const server = await started({ dir });
    expect(await server.call("CONFIG", "GET", "dir")).toEqual(["dir", dir]);
    await server.stop();
    expect(existsSync(dir)).toBe(true);
  });

  it("includes its log in the error when it can't start", async () => {
    const { port } = await started();
    await expect(startRedis({ port })).rejects.toThrow(
      new RegExp(`redis-server on port ${port} ended with 1: [\\s\\S]*Address already in use`),
    );
    await expect(startRedis({ args: ["--no-such-option", "1"] })).rejects.toThrow(
      /ended with 1: [\s\S]*no-such-option/,
    );
  });

  it("uses another port when the first is taken", async () => {
    const tried: number[] = [];
    const server = await startProcess({
      async prepare(port) {
        tried.push(port);
        if (tried.length > 1) return;
        const squatter = createServer().listen(port, "127.0.0.1");
        await once(squatter, "listening");
        onTestFinished(() => void squatter.close());
      },
      args: (port, dir) => ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", dir, "--save", ""],
    });
    onTestFinished(server.stop);
    expect(tried).toHaveLength(2);
    expect(server.port).toBe(tried[1]);
    expect(await server.call("PING")).toBe("PONG");
  });

  it.each(["process.exit(3)", "", "throw new Error('no')"])("ends with a program that runs: %s", async (then) => {
    const { stdout } = spawnSync(process.execPath, program(then), { encoding: "utf8" });
    const { port, dir } = JSON.parse(stdout);
    await gone(port);
    expect(existsSync(dir)).toBe(false);
  });

  it.each(["SIGTERM", "SIGKILL"] as const)("ends with a program that is killed by %s", async (signal) => {
    const parent = spawn(process.execPath, program("setInterval(() => {}, 1000)"), {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const [line] = await new Promise<string[]>((resolve) =>
      createInterface(parent.stdout).once("line", (l) => resolve([l])),
    );
    const { port, dir } = JSON.parse(line as string);
    await (await connect(port)).call("PING");
    parent.kill(signal);
    await gone(port);
    await until(`${dir} stayed`, async () => (existsSync(dir) ? "it is there" : undefined), 5000);
  });
});

describe("freePort", () => {
  it("never returns a port twice and reserves the cluster bus port", async () => {
    const ports = await Promise.all(Array.from({ length: 50 }, freePort));
    expect(new Set(ports).size).toBe(50);
    expect(Math.max(...ports)).toBeLessThan(55_535);
  });
});

describe("ensureRedis", () => {
  it("accepts an installed redis-server", withRedis, () => ensureRedis());

  it.each([
    ["there is no apt-get", {}, /there is no apt-get to install it|automatically on/],
    ["SLUICE_NO_APT is set", { SLUICE_NO_APT: "1" }, /SLUICE_NO_APT is set/],
  ])("names the missing program when %s", (_, env, reason) => {
    const source = JSON.stringify(new URL("ensure-redis.js", import.meta.url).href);
    const script = `import { ensureRedis } from ${source}; await ensureRedis().catch((e) => console.log(e.message));`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      encoding: "utf8",
      env: { PATH: "/nowhere", ...env },
    });
    expect(stdout).toMatch(
      /^Install redis-server and redis-cli 7.0 or newer and add both to the PATH\. Reason: there is no/,
    );
    expect(stdout).toMatch(reason);
  });
});
