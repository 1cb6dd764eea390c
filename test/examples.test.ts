/** Runs the examples by the commands of examples/README.md. The Workers are run by integration/cloudflare. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { hasRedis, withRedis } from "./servers/needs.ts";
import { type RedisServer, startRedis } from "./servers/redis-server.js";
import { until } from "./servers/until.js";
import { startUpstashBridge } from "./servers/upstash-bridge.js";

let redis: RedisServer;
beforeAll(async () => {
  if (hasRedis) redis = await startRedis();
});
afterAll(() => redis?.stop());

const running: ChildProcess[] = [];
afterEach(() => {
  for (const child of running.splice(0)) child.kill("SIGKILL");
});

const root = fileURLToPath(new URL("..", import.meta.url));

/** The command of every example in the table. */
const commands = new Map(
  [...readFileSync(`${root}/examples/README.md`, "utf8").matchAll(/^\| \[([^\]]+)\].* \| `([^`]+)` \|$/gm)].map(
    ([, file = "", command = ""]) => [file, command],
  ),
);

/** Starts an example by its documented command and resolves when it has printed its URL. */
async function start(file: string, variables: Record<string, string> = {}) {
  const [program, ...args] = commands.get(file)?.split(" ") ?? [];
  if (program !== "node") throw new Error(`${file} has no command in examples/README.md`);
  const { REDIS_URL: _, UPSTASH_REDIS_REST_URL: __, ...inherited } = process.env;
  const env = { ...inherited, PORT: "0", ...variables };
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  running.push(child);
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) createInterface(stream).on("line", (line) => lines.push(line));
  const url = () => lines.map((line) => /http:\/\/\S+\//.exec(line)?.[0]).find(Boolean);
  await until(`${file} does not listen`, async () => (url() ? undefined : lines.join("\n")));
  return {
    lines,
    ask: (path: string, headers: Record<string, string> = {}) => fetch(new URL(path, url()), { headers }),
    request: (path: string, init: RequestInit) => fetch(new URL(path, url()), init),
    post: (path: string, body: string, headers: Record<string, string>) =>
      fetch(new URL(path, url()), { method: "POST", headers, body }),
    send(path: string, body: unknown) {
      return this.post(path, JSON.stringify(body), { "Content-Type": "application/json" });
    },
    async statuses(paths: string[], headers: Record<string, string> = {}) {
      const statuses: number[] = [];
      for (const path of paths) statuses.push((await this.ask(path, headers)).status);
      return statuses;
    },
    /** Sends SIGINT and returns the exit code. */
    async end() {
      const exit = once(child, "exit");
      child.kill("SIGINT");
      const [code] = await exit;
      return code as number;
    },
  };
}

/** Runs an example that ends by itself, by its documented command, and returns what it printed. */
async function runToEnd(file: string): Promise<{ code: number; text: string }> {
  const [program, ...args] = commands.get(file)?.split(" ") ?? [];
  if (program !== "node") throw new Error(`${file} has no command in examples/README.md`);
  const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  running.push(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (text += data));
  const [code] = await once(child, "close");
  return { code: code as number, text };
}

/** The number after each label: `  used      32000 tokens`. */
function numbersOf(text: string): Record<string, number> {
  return Object.fromEntries(
    [...text.matchAll(/^ {2}(\w[\w ]*?) {2,}(\d+)/gm)].map(([, label, count]) => [label, Number(count)]),
  );
}

const times = <T>(count: number, one: T): T[] => new Array<T>(count).fill(one);
const as = (user: string) => ({ authorization: `Basic ${btoa(user)}` });

describe("examples/README.md", () => {
  it("lists every example", () => {
    const notExamples = ["README.md", "tsconfig.json", "migrating", "run.js", "install-sluice.js"];
    const files = readdirSync(`${root}/examples`).filter((file) => !notExamples.includes(file));
    const migrating = readdirSync(`${root}/examples/migrating`).map((file) => `migrating/${file}`);
    expect([...commands.keys()].sort()).toEqual([...files, ...migrating].sort());
  });

  it("has one command per example, which the example repeats", () => {
    for (const [file, command] of commands) {
      expect(command).toBe(`node examples/run.js ${file.replace(/\.js$/, "")}`);
      const page = file.endsWith(".js") ? file : `${file}/README.md`;
      expect(readFileSync(`${root}/examples/${page}`, "utf8"), page).toContain(command);
    }
  });
});

describe("examples/server.js", () => {
  it("allows a burst, rejects the next request and stops on Ctrl+C", async () => {
    const server = await start("server.js");
    expect(server.lines[0]).toMatch(/^sluice guards \S+ with a burst of 10, then 5 requests a second\.$/);
    const answers = await Promise.all(times(20, "/").map((path) => server.ask(path)));
    const denied = answers.find(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(10);
    expect(denied?.headers.get("retry-after")).toBe("1");
    expect(await server.end()).toBe(0);
  });

  it("prints the address of its dashboard, which is not limited and needs the token", async () => {
    const server = await start("server.js");
    const printed = server.lines.filter((line) => line.includes("_sluice"));
    const [, address = ""] =
      /^Dashboard: (http:\/\/127\.0\.0\.1:\d+\/_sluice\?token=[\w-]{43})$/.exec(printed[0] ?? "") ?? [];
    expect([printed.length, address]).toEqual([1, expect.stringContaining("token=")]);
    const statuses = (await Promise.all(times(20, "/").map((path) => server.ask(path)))).map(({ status }) => status);
    expect(await server.statuses(["/_sluice", "/_sluice/data", "/_sluice/app.js"])).toEqual([403, 403, 403]);

    const exchanged = await server.request(address, { redirect: "manual" });
    const [cookie = ""] = exchanged.headers.getSetCookie();
    expect([exchanged.status, exchanged.headers.get("location")]).toEqual([303, "./_sluice"]);
    const session = { Cookie: cookie.split(";")[0] ?? "" };
    expect(await server.statuses(["/_sluice", "/_sluice/app.js", "/_sluice/app.css"], session)).toEqual([
      200, 200, 200,
    ]);
    const { totals } = await (await server.ask("/_sluice/data", session)).json();
    const count = (status: number) => statuses.filter((one) => one === status).length;
    expect(totals).toEqual({ allowed: count(200), denied: count(429), wouldDeny: 0, degraded: 0 });
    expect(await server.statuses(["/_sluice/data"], { ...session, Origin: "https://evil.example" })).toEqual([403]);
    expect(await server.end()).toBe(0);
  });
});

describe.each(["express-server.js", "fastify-server.js", "hono-server.js", "fetch-server.js"])(
  "examples/%s",
  (file) => {
    it("limits everything but the health check, and failed logins separately", async () => {
      const server = await start(file);
      const login = (password: string) => server.send("/login", { password });
      expect((await login("secret")).headers.get("ratelimit-policy")?.split(", ").sort()).toEqual([
        '"api";q=10;w=2',
        '"login";q=3;w=900',
      ]);
      const statuses: number[] = [];
      for (const password of ["wrong", "wrong", "secret", "wrong", "wrong", "secret"]) {
        statuses.push((await login(password)).status);
      }
      expect(statuses).toEqual([401, 401, 200, 401, 429, 429]);

      const answers = await Promise.all(times(40, "/").map((path) => server.ask(path)));
      const allowed = answers.filter(({ status }) => status === 200);
      const denied = answers.find(({ status }) => status === 429);
      expect(await allowed[0]?.json()).toEqual({ hello: "world" });
      expect(denied?.headers.get("retry-after")).toBe("1");
      expect(denied?.headers.get("cache-control")).toBe("no-store");
      expect(await server.statuses(times(20, "/health"))).toEqual(times(20, 200));
      expect(await server.end()).toBe(0);
      expect(server.lines.length).toBe(1);
    });
  },
);

describe("examples/redis-server.js", withRedis, () => {
  it("responds with 200 and 429, with 503 while Redis is unavailable, and logs both transitions", async () => {
    const server = await start("redis-server.js", { REDIS_URL: redis.url });
    const first = await server.ask("/");
    expect(first.status).toBe(200);
    expect(first.headers.get("ratelimit-policy")).toBe('"burst";q=10;w=2, "daily";q=5000;w=86400');
    const answers = await Promise.all(times(40, "/").map((path) => server.ask(path)));
    const denied = answers.find(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(9);
    expect(denied?.headers.get("retry-after")).toBe("1");
    expect(await redis.call("DBSIZE")).toBe(2);

    await redis.kill();
    await until("the store is not down", async () => {
      const { status, headers } = await server.ask("/");
      if (status === 503) expect([headers.get("retry-after"), headers.get("ratelimit")]).toEqual(["1", null]);
      return server.lines.some((line) => line.startsWith("store-down: ")) ? undefined : `${status}`;
    });
    await redis.restart();
    await until("the store is not back", async () => {
      const { status } = await server.ask("/");
      return status === 200 && server.lines.some((line) => line.startsWith("store-up: ")) ? undefined : `${status}`;
    });
    expect(await server.end()).toBe(0);
    // The URL, and one line per transition.
    expect(server.lines.map((line) => line.split(":")[0])).toEqual(["sluice guards http", "store-down", "store-up"]);
  });
});

describe("examples/migrating/from-rate-limiter-flexible.js", () => {
  it("responds as documented", withRedis, async () => {
    const server = await start("migrating/from-rate-limiter-flexible.js", { REDIS_URL: redis.url });
    const paths = [...times(6, "/"), "/export", ...times(6, "/")];
    expect(await server.statuses(paths)).toEqual([...times(6, 200), 429, ...times(4, 200), 429, 429]);
    const wait = Number((await server.ask("/")).headers.get("retry-after"));
    expect(wait > 0 && wait <= 6, `Retry-After: ${wait}`).toBe(true);
    expect(await server.statuses(times(4, "/login"), as("ada:guess"))).toEqual([401, 401, 401, 429]);
    expect(await server.statuses(["/login"], as("ada:secret"))).toEqual([429]);
    expect(await server.statuses(times(2, "/login"), as("eve:guess"))).toEqual([401, 401]);
    expect(await server.statuses(["/login"], as("eve:secret"))).toEqual([200]);
    expect(await server.statuses(times(3, "/login"), as("eve:guess"))).toEqual([401, 429, 429]);
    expect(await server.statuses(["/login"], as("eve:secret"))).toEqual([429]);
    expect(await server.end()).toBe(0);
  });

  it("falls back to memory without Redis and rejects logins", async () => {
    const server = await start("migrating/from-rate-limiter-flexible.js", { REDIS_URL: "redis://127.0.0.1:1" });
    expect(await server.statuses(times(11, "/"))).toEqual([...times(10, 200), 429]);
    expect(await server.statuses(["/login"], as("ada:secret"))).toEqual([503]);
    expect(await server.end()).toBe(0);
  });
});

describe("examples/migrating/from-upstash-ratelimit.js", withRedis, () => {
  const file = "migrating/from-upstash-ratelimit.js";
  type Server = Awaited<ReturnType<typeof start>>;
  const ask = (server: Server, user: string, words: number) =>
    server.post("/", times(words, "w").join(" "), { authorization: `Bearer key-of-${user}` });

  it("responds as documented, and without the limit if Upstash fails", async () => {
    const bridge = await startUpstashBridge(redis.port);
    try {
      const server = await start(file, { UPSTASH_REDIS_REST_URL: bridge.url, UPSTASH_REDIS_REST_TOKEN: bridge.token });
      const statuses: number[] = [];
      for (const words of [7, 5, 3]) statuses.push((await ask(server, "ada", words)).status);
      for (const words of [11, 1]) statuses.push((await ask(server, "eve", words)).status);
      expect(statuses).toEqual([200, 429, 200, 429, 200]);
      expect((await ask(server, "nobody", 1)).status).toBe(401);
      expect((await ask(server, "eve", 1)).headers.get("ratelimit-policy")).toBe('"chat";q=10;w=60');
      bridge.fail(500);
      expect((await ask(server, "eve", 1)).status).toBe(200);
      expect(await server.end()).toBe(0);
    } finally {
      await bridge.stop();
    }
  });
});

describe("examples/ai-tokens", () => {
  it("charges what was used to the token, and prints what was forgiven", async () => {
    const { code, text } = await runToEnd("ai-tokens");
    const [covered = "", small = "", disconnected = "", ...more] = text.trim().split("\n\n");
    expect(more).toEqual([]);
    // The sum of 20, 21.4, … 300, of which each is rounded.
    expect(numbersOf(covered), text).toEqual({ requests: 200, used: 32_000, charged: 32_000, owed: 0, forgiven: 0 });
    expect(covered).toContain("200 at once, 200 streamed, 0 rejected with 429");

    // Ten users with a limit of 300: three holds of 100 each, and a debt of at most one limit.
    const { used = 0, forgiven = 0, ...sums } = numbersOf(small);
    expect(small).toContain("200 at once, 30 streamed, 170 rejected with 429");
    expect(sums).toEqual({ requests: 200, charged: 3000, owed: 3000 });
    expect(forgiven).toBeGreaterThan(0);
    expect(used).toBe(6000 + forgiven);

    const left = numbersOf(disconnected);
    expect(disconnected).toContain("200 at once, 200 streamed, 0 rejected with 429");
    // At least the prompt and the ten words that each client has read, and less than all clients have asked for.
    expect(left.used).toBeGreaterThanOrEqual(200 * 15);
    expect(left.used).toBeLessThan(32_000);
    expect(left).toMatchObject({ charged: left.used, owed: 0, forgiven: 0 });
    expect(code).toBe(0);
  }, 30_000);
});

describe("examples/concurrency", () => {
  it("never runs more than 5 requests of a client at once, and leaves nothing held", async () => {
    const { code, text } = await runToEnd("concurrency");
    const counts = numbersOf(text);
    expect(counts, text).toMatchObject({ "most at once": 5, "held at the end": 0 });
    const { served = 0, failed = 0, disconnected = 0, rejected = 0 } = counts;
    expect(served + failed + disconnected + rejected).toBe(500);
    expect(Math.min(served, failed, disconnected, rejected)).toBeGreaterThan(0);
    expect(code).toBe(0);
  }, 30_000);
});

describe("examples/monitoring", withRedis, () => {
  it("counts requests at /metrics, logs denied ones and stops on Ctrl+C", async () => {
    const server = await start("monitoring", { REDIS_URL: redis.url });
    const statuses = await server.statuses(times(13, "/search"), { "x-tenant": "acme" });
    const denied = statuses.filter((status) => status === 429).length;
    expect(denied).toBeGreaterThan(0);
    const metrics = await (await server.ask("/metrics")).text();
    expect(metrics).toContain(`sluice_requests_total{rule="search",outcome="allowed"} ${13 - denied}\n`);
    expect(metrics).toContain(`sluice_requests_total{rule="search",outcome="denied"} ${denied}\n`);
    await until("the denied requests are not logged", async () => {
      const logged = server.lines.filter((line) => line.includes('"msg":"denied","rule":"search"')).length;
      return logged === denied ? undefined : `${logged} of ${denied}`;
    });
    expect(await server.end()).toBe(0);
  });
});

describe("examples/payments", withRedis, () => {
  it("makes every payment once, although processes crash after some of them", async () => {
    const { code, text } = await runToEnd("payments");
    const { requests = 0, crashes, replays, paid } = numbersOf(text);
    expect({ crashes, replays, paid }, text).toEqual({ crashes: 4, replays: 5, paid: 2100 });
    expect(requests).toBeGreaterThan(25);
    expect(code).toBe(0);
  }, 60_000);
});

describe("examples on a temporary Redis", withRedis, () => {
  it.each([
    ["redis-server.js", { method: "GET" }],
    ["migrating/from-rate-limiter-flexible.js", { method: "GET" }],
    [
      "migrating/from-upstash-ratelimit.js",
      { method: "POST", headers: { authorization: "Bearer key-of-ada" }, body: "w" },
    ],
  ])("%s uses it and exits", async (file, init) => {
    const server = await start(file);
    const response = await server.request("/", init);
    expect(response.status).toBe(200);
    expect(response.headers.get("ratelimit")).toMatch(/;r=\d+/);
    expect(await server.end()).toBe(0);
    expect(server.lines.filter((line) => /store-down|unavailable/.test(line))).toEqual([]);
  });
});

describe("examples/saas", withRedis, () => {
  const page = readFileSync(`${root}/examples/saas/README.md`, "utf8");

  it("prints and responds as its README says", async () => {
    const server = await start("saas");
    const report = page.slice(page.indexOf("POST /v1/reports  ->"), page.indexOf("\n```", page.indexOf("->")));
    expect(server.lines.join("\n")).toContain(report);
    const post = (path: string, session: string, body: object = {}) =>
      server.post(path, JSON.stringify(body), { "Content-Type": "application/json", "X-Session": session });

    expect((await post("/v1/reports", "ada globex free")).status).toBe(200);
    const denied = await post("/v1/reports", "ada globex free");
    expect(denied.status).toBe(429);
    const body = (await denied.text()).replace(/"retryAfterMs":\d+/, '"retryAfterMs":…');
    expect(page).toContain(`${body} 429\n`);

    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await post("/v1/reports", "bob acme pro")).status);
    expect(page).toContain(`\n${statuses.join(" ")}\n`);

    const unusual = await server.ask("/V1/Search/", { "X-Session": "eve initech pro" });
    expect(page).toContain(`\nRateLimit-Policy: ${unusual.headers.get("ratelimit-policy")}\n`);
    expect((await server.ask("/healthz")).headers.get("ratelimit")).toBeNull();

    for (let i = 0; i < 2; i++) {
      const response = await post("/v1/ai/chat", "eve initech free", { max_tokens: 5000 });
      await response.text();
      expect(page).toContain(`\n${/"ai\.tenant@free";r=\d+/.exec(response.headers.get("ratelimit") ?? "")}\n`);
    }
    expect(await server.end()).toBe(0);
  });
});

describe("examples/login", withRedis, () => {
  const ADA = { email: "ada@example.com", password: "analytical engine" };
  const OPERATOR = { authorization: "Bearer operator" };
  const json = { "Content-Type": "application/json" };
  const page = readFileSync(`${root}/examples/login/README.md`, "utf8");

  it("asks for a challenge after wrong passwords, and accepts its solution once", async () => {
    const server = await start("login");
    const login = (password: string, headers = {}) =>
      server.post("/login", JSON.stringify({ ...ADA, password }), { ...json, ...headers });
    for (let i = 0; i < 3; i++) {
      const wrong = await login(`guess ${i}`);
      expect(page).toContain(`\n${await wrong.text()} ${wrong.status}\n`);
    }
    const denied = await login(ADA.password);
    expect([denied.status, denied.headers.get("sluice-mitigated")]).toEqual([403, "challenge"]);
    const text = await denied.text();
    expect(page).toContain(`\n${text} 403\n`);

    // What the widget does in a browser.
    const html = await (await server.ask("/")).text();
    const widget = new URL(/data-widget="([^"]+)"/.exec(html)?.[1] ?? "");
    const solve = async (changes = {}) => {
      const body = JSON.stringify({ hostname: "127.0.0.1", action: JSON.parse(text).challenge.action, ...changes });
      const reply = await fetch(new URL("/token", widget), { method: "POST", headers: json, body });
      return { "Sluice-Challenge-Token": ((await reply.json()) as { token: string }).token };
    };
    const solution = await solve();
    expect((await login("guess", solution)).status).toBe(401);
    const codes = async (headers: object) => [(await (await login(ADA.password, headers)).json()).codes];
    expect(await codes(solution)).toEqual([["timeout-or-duplicate"]]);
    expect(await codes(await solve({ hostname: "other.example" }))).toEqual([["hostname-mismatch"]]);
    expect(await codes(await solve({ action: "other" }))).toEqual([["action-mismatch"]]);

    const response = await login(ADA.password, await solve());
    expect([response.status, await response.json()]).toEqual([200, { name: "Ada" }]);
    const cookie = response.headers.getSetCookie().map((one) => one.split(";")[0]);
    expect(cookie.map((one) => one?.split("=")[0])).toEqual(["__Host-session", "__Host-sluice-clearance"]);
    expect(await (await server.ask("/", { cookie: cookie.join("; ") })).text()).toContain("Welcome, Ada");
    expect(await server.end()).toBe(0);
  });

  it("works as a form without a script", async () => {
    const server = await start("login");
    const submit = (password: string) =>
      server.request("/login", {
        method: "POST",
        headers: { accept: "text/html" },
        body: new URLSearchParams({ ...ADA, email: '"><b>', password }),
        redirect: "manual",
      });
    const wrong = await submit("guess");
    expect(wrong.status).toBe(401);
    expect(await wrong.text()).toMatch(/value="&#34;&#62;&#60;b&#62;".*Wrong email or password\./s);
    const right = await server.request("/login", {
      method: "POST",
      body: new URLSearchParams(ADA),
      redirect: "manual",
    });
    expect([right.status, right.headers.get("location")]).toEqual([303, "/"]);
    expect(await server.end()).toBe(0);
  });

  it("blocks an address that requests a trap, until an operator unblocks it", async () => {
    const server = await start("login", { OPERATOR_TOKEN: "operator" });
    const scanner = { "X-Forwarded-For": "203.0.113.9" };
    const statuses = await server.statuses(["/", "/.env", "/"], scanner);
    expect(page).toContain(`\n${statuses.join(" ")}\n`);
    expect(await server.statuses(["/"])).toEqual([200]);

    const block = "/operator/blocks/ip:203.0.113.9";
    expect((await server.request(block, { method: "DELETE" })).status).toBe(401);
    expect(await (await server.ask(block, OPERATOR)).json()).toMatchObject({ blocked: true, strikes: 10 });
    expect((await server.request(block, { method: "DELETE", headers: OPERATOR })).status).toBe(204);
    expect(await server.statuses(["/"], scanner)).toEqual([200]);
    const duration = JSON.stringify({ duration: "10m" });
    const blocked = await server.request(block, { method: "PUT", headers: { ...OPERATOR, ...json }, body: duration });
    expect(blocked.status).toBe(204);
    expect(await server.statuses(["/"], scanner)).toEqual([429]);
    expect(await server.end()).toBe(0);
  });
});

describe("examples/websocket-server.js", () => {
  for (const [where, options] of [
    ["in memory", {}],
    ["on Redis", withRedis],
  ] as const) {
    it(
      `notifies and then closes a client over the limit, and rejects the sixth connection ${where}`,
      options,
      async () => {
        const server = await start("websocket-server.js", where === "on Redis" ? { REDIS_URL: redis.url } : {});
        const url = String(await (await server.ask("/")).url).replace("http", "ws");
        const connect = async () => {
          const socket = new WebSocket(url);
          await once(socket, "open");
          return socket;
        };
        const [talker, ...others] = await Promise.all(times(5, undefined).map(connect));
        if (!talker) throw new Error("no client connected");
        await expect(connect()).rejects.toThrow("429");
        const heard: { type: string; payload?: { code: string; retryAfterMs: number } }[] = [];
        talker.on("message", (data) => heard.push(JSON.parse(String(data))));
        for (let n = 0; n < 20; n++) talker.send(JSON.stringify({ type: "say", text: `${n}` }));
        await until("no notice", async () =>
          heard.some(({ type }) => type === "ERROR") ? undefined : `${heard.length}`,
        );
        expect(heard.filter(({ type }) => type === "said").length).toBeGreaterThanOrEqual(10);
        expect(heard.find(({ payload }) => payload)?.payload).toMatchObject({
          code: "RESOURCE_EXHAUSTED",
          retryable: true,
        });
        const closed = once(talker, "close");
        for (let n = 0; n < 100; n++) talker.send("junk");
        expect((await closed)[0]).toBe(1013);
        expect(server.lines.some((line) => line.startsWith("rate exceeded by public:ip:127.0.0.1:say"))).toBe(true);
        for (const socket of others) socket.terminate();
        expect(await server.end()).toBe(0);
      },
    );
  }
});
