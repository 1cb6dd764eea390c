/** Requests that finish after their grant has expired are not refunded. */
import { memoryRateLimiter, type PolicyText } from "sluice";
import { rateLimit } from "sluice/fetch";
import { fakeClock } from "sluice/testing";
import { expect, it } from "vitest";

/** An app whose responses are sent by the test. */
function slowApp(policy: PolicyText, refundIf: "failed" | "succeeded") {
  const clock = fakeClock(1_790_000_000_000);
  const pending: ((status: number) => void)[] = [];
  const fetchApp = rateLimit({ limiter: memoryRateLimiter(policy, { clock }), key: () => "k", refundIf })(
    () => new Promise<Response>((resolve) => pending.push((status) => resolve(new Response(null, { status })))),
  );
  const send = async () => {
    const before = pending.length;
    const response = fetchApp(new Request("http://localhost/"));
    await new Promise((resolve) => setImmediate(resolve));
    return { admitted: pending.length > before, response };
  };
  return { clock, pending, send };
}

it.each<PolicyText>(["2/s", "2/s fixed", "2/s sliding", "2/s log"])(
  "does not refund slow requests that fail after their window: %s",
  async (policy) => {
    const { clock, pending, send } = slowApp(policy, "failed");
    const slow = [await send(), await send()];
    expect(slow.map(({ admitted }) => admitted)).toEqual([true, true]);
    clock.advance(2000);
    const next = [await send(), await send()];
    expect(next.map(({ admitted }) => admitted)).toEqual([true, true]);
    for (const [i, finish] of pending.splice(0, 2).entries()) {
      finish(500);
      await slow[i]?.response;
    }
    expect((await send()).admitted, "a third request at one instant with a limit of 2").toBe(false);
    for (const finish of pending) finish(200);
  },
);

it("does not give failed logins a second budget when logins that were held open succeed", async () => {
  const { clock, pending, send } = slowApp("20/15m log", "succeeded");
  // Ten correct logins are held open, then ten wrong ones fail at once, fourteen minutes later.
  const held = [];
  for (let i = 0; i < 10; i++) held.push(await send());
  const finishHeld = pending.splice(0);
  clock.advance(14 * 60_000);
  let wrong = 0;
  const tryWrong = async () => {
    const { admitted, response } = await send();
    if (!admitted) return;
    wrong++;
    pending.splice(0).forEach((finish) => void finish(401));
    await response;
  };
  for (let i = 0; i < 20; i++) await tryWrong();
  expect(wrong).toBe(10);
  for (const finish of finishHeld) finish(200);
  await Promise.all(held.map(({ response }) => response));
  for (let i = 0; i < 20; i++) await tryWrong();
  expect(wrong, "wrong tries within 15 minutes, at 20 per 15 minutes").toBe(20);
  // The held logins are gone from the log, but not the wrong ones: a minute later there is no new room.
  clock.advance(60_000);
  for (let i = 0; i < 20; i++) await tryWrong();
  expect(wrong).toBe(20);
});
