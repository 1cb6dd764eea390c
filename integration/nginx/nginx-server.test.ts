/** The nginx process of the other tests: its configuration, and that it ends with its parent. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { startNginx } from "../../test/servers/nginx.js";
import { until } from "../../test/servers/until.js";
import { sendRequest } from "../send-request.ts";

const SOURCE = JSON.stringify(new URL("../../test/servers/nginx.js", import.meta.url).href);

const gone = (url: string) =>
  until(
    `${url} did not close`,
    () =>
      sendRequest(url, "/").then(
        () => "it still responds",
        (error) => (error.code === "ECONNREFUSED" ? undefined : error.code),
      ),
    5000,
  );

describe("nginx", () => {
  it("forwards requests with the configured headers until it is stopped", async () => {
    const app = await listen((request, response) => response.end(JSON.stringify(request.headers)));
    onTestFinished(app.close);
    const to = Number(new URL(app.url).port);
    const nginx = await startNginx({ to, set: { "X-Real-IP": "$remote_addr", "X-Gone": "" } });
    onTestFinished(nginx.stop);
    const asked = { from: "127.0.0.9", headers: { "X-Real-IP": "203.0.113.1", "X-Gone": "1", "X-Own": "1" } };
    const { status, body } = await sendRequest(nginx.url, "/", asked);
    expect([status, JSON.parse(body)]).toEqual([
      200,
      expect.objectContaining({ "x-real-ip": "127.0.0.9", "x-own": "1" }),
    ]);
    expect(JSON.parse(body)).not.toHaveProperty("x-gone");
    await nginx.stop();
    await gone(nginx.url);
  });

  it("reports an invalid configuration", async () => {
    await expect(startNginx({ to: 1, http: "nonsense;" })).rejects.toThrow('unknown directive "nonsense"');
  });

  it("ends when its parent is killed", async () => {
    const script = `
      import { startNginx } from ${SOURCE};
      console.log((await startNginx({ to: 1 })).url);
      setInterval(() => {}, 1000);`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const url = await new Promise<string>((resolve) => createInterface(parent.stdout).once("line", resolve));
    expect((await sendRequest(url, "/")).status).toBe(502);
    parent.kill("SIGKILL");
    await gone(url);
  });
});
