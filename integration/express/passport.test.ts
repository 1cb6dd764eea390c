/** `examples/login/passport`, by its documented command: packages of its own, and sluice as it is packed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("Passport redirects after every password: 5 of 50 guesses reach the check, right ones are refunded", async () => {
  const page = readFileSync(`${root}/examples/login/README.md`, "utf8");
  const [, command = ""] = /^(node examples\/run\.js login\/passport)$/m.exec(page) ?? [];
  const [, ...args] = command.split(" ");
  const env = { ...process.env, PORT: "0" };
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let checks = 0;
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stdout).on("line", (line) => {
        if (line.startsWith("checked")) checks++;
        const [found] = /http:\/\/\S+\//.exec(line) ?? [];
        if (found) resolve(found);
      });
      child.once("exit", () => reject(new Error("the example ended")));
    });
    const login = async (password: string) => {
      const body = new URLSearchParams({ username: "ada", password });
      const response = await fetch(new URL("login", url), { method: "POST", body, redirect: "manual" });
      return `${response.status} ${response.headers.get("location")}`;
    };
    for (let i = 0; i < 10; i++) expect(await login("analytical engine")).toBe("303 /welcome");
    expect(checks).toBe(10);
    const guesses: string[] = [];
    for (let i = 0; i < 50; i++) guesses.push(await login(`guess ${i}`));
    expect(guesses.slice(0, 6)).toEqual([...new Array(5).fill("302 /login?failed"), "429 null"]);
    expect(page).toContain(
      `\n${guesses
        .slice(0, 6)
        .map((one) => one.slice(0, 3))
        .join(" ")}\n`,
    );
    expect(checks).toBe(15);
  } finally {
    const exit = once(child, "exit");
    child.kill("SIGINT");
    await exit;
  }
}, 120_000);
