/** The global setup, called as vitest calls it. */
import { expect, it } from "vitest";
import type { TestProject } from "vitest/node";
import setup from "./one-redis.js";
import { connect } from "./resp.js";

it("one redis-server lasts from the setup to the teardown", async () => {
  const provided: Record<string, number> = {};
  const project = { provide: (key: string, value: number) => void (provided[key] = value) };
  const teardown = await setup(project as unknown as TestProject);
  const port = provided.redisPort as number;
  const connection = await connect(port);
  expect(await connection.call("PING")).toBe("PONG");
  await teardown();
  await expect(connect(port)).rejects.toThrow("ECONNREFUSED");
});
