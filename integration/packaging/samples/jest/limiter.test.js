/** Jest without any configuration: it loads the CommonJS build. */
const { memoryRateLimiter, SluiceError } = require("sluice");
const { durableObjectRateLimiter } = require("sluice/cloudflare");
const { getRateLimit, rateLimit } = require("sluice/fetch");
const { describeRateLimiter, fakeClock } = require("sluice/testing");

test("limits with a fake clock", async () => {
  const clock = fakeClock();
  const limiter = memoryRateLimiter("2/s", { clock });
  const allowed = async () => (await limiter.consume("key")).allowed;
  expect([await allowed(), await allowed(), await allowed()]).toEqual([true, true, false]);
  clock.advance(500);
  expect(await allowed()).toBe(true);
});

test("throws a SluiceError", () => {
  expect(() => memoryRateLimiter("0/s")).toThrow(SluiceError);
  expect(() => durableObjectRateLimiter(undefined, "5/s")).toThrow(SluiceError);
});

test("finds the decision of a request", async () => {
  const request = new Request("http://localhost/");
  const limited = rateLimit({ policy: "5/s", key: () => "key" })(async () => new Response("ok"));
  expect((await limited(request)).status).toBe(200);
  expect(getRateLimit(request).remaining).toBe(4);
});

describeRateLimiter("memory", (policy) => {
  const clock = fakeClock();
  return { limiter: memoryRateLimiter(policy, { clock }), advance: clock.advance };
});
