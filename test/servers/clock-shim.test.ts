/** Tests that the wall clock of a redis-server can be shifted. */
import { describe, expect, it, onTestFinished } from "vitest";
import { startShiftedRedis } from "./clock-shim.js";
import { withShiftedRedis } from "./needs.ts";
import { connect } from "./resp.js";

async function shifted() {
  const server = await startShiftedRedis();
  onTestFinished(server.stop);
  const connection = await connect(server.port);
  onTestFinished(connection.close);
  const ahead = async (...command: (string | number)[]) => {
    const [seconds, micros] = (await connection.call(...command)) as string[];
    return Number(seconds) * 1000 + Number(micros) / 1000 - Date.now();
  };
  return { server, connection, ahead };
}

describe("a redis-server with a shifted clock", withShiftedRedis(), () => {
  it("starts at the real time", async () => {
    const { ahead } = await shifted();
    expect(Math.abs(await ahead("TIME"))).toBeLessThan(500);
  });

  it.each([3_600_000, -3_600_000, 1, -1, 1999, -1999, 20 * 365 * 86_400_000])(
    "is immediately %i ms ahead",
    async (ms) => {
      const { server, ahead } = await shifted();
      server.shift(ms);
      expect(Math.abs((await ahead("TIME")) - ms)).toBeLessThan(500);
      expect(Math.abs((await ahead("EVAL", "return redis.call('TIME')", 0)) - ms)).toBeLessThan(500);
      server.shift(0);
      expect(Math.abs(await ahead("TIME"))).toBeLessThan(500);
    },
  );

  it("shifts expiry", async () => {
    const { server, connection } = await shifted();
    await connection.call("SET", "k", "v", "PX", 60_000);
    const left = async () => Number(await connection.call("PTTL", "k"));
    const near = (ms: number) => [ms - 1000, ms + 1] as const;
    for (const [ms, expected] of [
      [0, 60_000],
      [30_000, 30_000],
      [-30_000, 90_000],
      [59_000, 1000],
    ] as const) {
      server.shift(ms);
      const pttl = await left();
      const [least, most] = near(expected);
      expect(pttl).toBeGreaterThan(least);
      expect(pttl).toBeLessThanOrEqual(most);
    }
    server.shift(60_001);
    expect(await connection.call("GET", "k")).toBeNull();
  });

  it("keeps the offset after a crash", async () => {
    const { server } = await shifted();
    server.shift(86_400_000);
    await server.kill();
    await server.restart();
    const [seconds] = (await server.call("TIME")) as string[];
    expect(Number(seconds) * 1000 - Date.now()).toBeGreaterThan(86_000_000);
  });
});
