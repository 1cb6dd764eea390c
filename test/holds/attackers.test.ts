/** Many attackers on one account: keyed by account and IP address, none of them locks its owner out. */
import { combine, createLimiter, memoryStore, penalty, slidingLog, strike } from "sluice";
import { fakeClock } from "sluice/testing";
import { expect, it } from "vitest";

const ATTACKERS = 1000;

it("1000 attackers are blocked, and the owner of the account logs in", async () => {
  const clock = fakeClock();
  const store = memoryStore({ clock });
  const attempts = createLimiter({ policy: slidingLog("5/m", { name: "attempts" }), store });
  const lockout = createLimiter({ policy: penalty({ strikes: 3, blockMs: "1m", maxBlockMs: "1h" }), store });
  const login = combine([attempts, lockout]);
  const key = (ip: string) => `ann ${ip}`;
  for (let n = 0; n < ATTACKERS; n++) {
    const ip = `10.0.${n >> 8}.${n & 255}`;
    for (let i = 0; i < 12; i++) {
      if (!(await login.consume(key(ip))).allowed) continue;
      // A wrong password.
      await strike(lockout, key(ip));
    }
    expect((await lockout.inspect(key(ip))).blockedMs, ip).toBeGreaterThan(0);
  }
  expect(await login.consume(key("192.0.2.7"))).toMatchObject({ allowed: true });
  expect(await lockout.inspect(key("192.0.2.7"))).toMatchObject({ strikes: 0, blockedMs: 0 });
});
