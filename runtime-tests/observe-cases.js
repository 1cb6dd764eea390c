/** Cases of `sluice/observe` without a test runner and without Node's API. */
import { createLimiter } from "sluice";
import { rateLimit } from "sluice/fetch";
import { createObserver, jsonLog } from "sluice/observe";
import { fakeClock } from "sluice/testing";

const lines = [];
// Created while the module loads, where a Worker has neither a clock nor random numbers.
const atStartup = createObserver({ log: jsonLog((line) => lines.push(line)) });
const policy = { capacity: 2, tokensPerSecond: "2/1h", name: "api" };
const limit = rateLimit({ policy, key: () => "canary", observer: atStartup });
const handler = limit(() => new Response("ok"));

function expectEqual(actual, expected) {
  const [got, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (got !== wanted) throw new Error(`expected ${wanted}, got ${got}`);
}

function samplesOf(observer, name) {
  const { samples } = observer.metrics().find((metric) => metric.name === name);
  return samples.map(({ labels, value }) => [...Object.values(labels), value]);
}

/** Adds the cases to a list. */
export function observeCases(it) {
  it("an observer that is created at start-up counts and logs requests", async () => {
    for (let i = 0; i < 3; i++) await handler(new Request("http://localhost/"));
    expectEqual(samplesOf(atStartup, "requests_total"), [
      ["api", "allowed", 2],
      ["api", "denied", 1],
    ]);
    const [{ msg, key }, ...others] = lines.map((line) => JSON.parse(line));
    expectEqual([msg, /^[0-9a-f]{8}$/.test(key), others.length], ["denied", true, 0]);
    expectEqual(JSON.stringify([lines, atStartup.topKeys()]).includes("canary"), false);
  });

  it("an observer emits events, and tags that depend on the secret only", async () => {
    const clock = fakeClock();
    const tagsOf = async () => {
      const observer = createObserver({ secret: "a secret of sixteen characters", clock });
      const tags = [];
      observer.on((event) => tags.push(event.tag()));
      await createLimiter({ policy, observer }).consume("canary");
      expectEqual(samplesOf(observer, "decisions_total"), [["api", "allowed", 1]]);
      return tags;
    };
    const [first, second] = [await tagsOf(), await tagsOf()];
    expectEqual([first.length, first], [1, second]);
  });
}
