/** The login of guide 9, which charges two limits: successful logins that are held open must not make room for others. */
import { consumeAll, createLimiter, memoryStore, slidingLog } from "sluice";
import { fakeClock } from "sluice/testing";
import { expect, it } from "vitest";

it("refunds the log entry of the login itself, not the newest one", async () => {
  const clock = fakeClock(1_790_000_000_000);
  const store = memoryStore({ clock });
  const byAddress = createLimiter({ policy: slidingLog("20/15m", { name: "logins by address" }), store });
  const byPair = createLimiter({ policy: slidingLog("5/15m", { name: "logins" }), store });
  const login = async (account: string, check: () => Promise<boolean>): Promise<number> => {
    const decision = await consumeAll([
      { limiter: byAddress, key: "ip" },
      { limiter: byPair, key: `ip as ${account}` },
    ]);
    if (!decision.allowed) return 429;
    if (!(await check())) return 401;
    const [address, pair] = decision.parts ?? [];
    await Promise.all([byAddress.refund("ip", 1, address), byPair.refund(`ip as ${account}`, 1, pair)]);
    return 200;
  };
  const open: (() => void)[] = [];
  const held = Array.from({ length: 10 }, (_, i) =>
    login(`own ${i}`, () => new Promise((resolve) => open.push(() => resolve(true)))),
  );
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(14 * 60_000);
  const wrong = async (count: number) => {
    let tried = 0;
    for (let i = 0; i < count; i++) if ((await login(`victim ${i}`, async () => false)) === 401) tried++;
    return tried;
  };
  expect(await wrong(30)).toBe(10);
  for (const finish of open) finish();
  expect(await Promise.all(held)).toEqual(Array(10).fill(200));
  expect(await wrong(30)).toBe(10);
  // The held logins would have left the window by now; what counts are 20 wrong tries of the last minutes.
  clock.advance(60_000);
  expect(await wrong(30)).toBe(0);
});
