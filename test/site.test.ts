/** The site without a browser: its list of pages, their titles and descriptions, its links, and the simulation of the explainer. */
import {
  fixedWindow,
  leakyBucket,
  memoryRateLimiter,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "sluice";
import { describe, expect, it } from "vitest";
import { rewriteLink, slugify } from "../docs/.vitepress/markdown.js";
import { makeSidebar, readPage } from "../docs/.vitepress/pages.js";
import { listedPages } from "../docs/.vitepress/sidebar.js";
import {
  type Algorithm,
  arrivalsOf,
  codeOf,
  DURATION_MS,
  LEVEL_STEP_MS,
  policyOf,
  type Scenario,
  simulate,
} from "../docs/.vitepress/theme/simulate.ts";
import { pages } from "./snippets.ts";

/** Pages without a sidebar entry: the home page, and decision records, which their index lists. */
const UNLISTED = /^(?:index|decisions\/\d+-.*)\.md$/;
const written = pages.filter((page) => page.startsWith("docs/")).map((page) => page.slice("docs/".length));

describe("the sidebar", () => {
  it("lists every page once, and no other", () => {
    expect([...listedPages].sort()).toEqual(written.filter((page) => !UNLISTED.test(page)).sort());
  });

  it("has a text for every entry", () => {
    for (const { text, items = [] } of makeSidebar()) {
      expect(text).not.toBe("");
      for (const item of items) expect(item.text, JSON.stringify(item)).not.toBe("");
    }
  });

  it.each(listedPages)("%s has a title and a description of its own", (path) => {
    const { title, description } = readPage(path);
    expect(title).not.toMatch(/^$|^\d|[.!]$/);
    expect(description.length, description).toBeGreaterThanOrEqual(50);
    // Search engines cut what is longer.
    expect(description.length, description).toBeLessThanOrEqual(160);
    const others = listedPages.filter((other) => other !== path).map(readPage);
    for (const other of others)
      expect([title, description]).not.toContain(other.title === title ? title : other.description);
  });
});

describe("links on the site", () => {
  const addresses = { homepage: "https://owner.example/name/", repositoryUrl: "https://host.example/owner/name" };

  it.each([
    ["a page", "first-limit.md", "first-limit.md"],
    ["a page in another folder", "../stores/redis.md#access", "../stores/redis.md#access"],
    ["a file of the repository", "../../CHANGELOG.md", "https://host.example/owner/name/blob/main/CHANGELOG.md"],
    ["a page by its address on GitHub", "https://host.example/owner/name/blob/main/docs/errors.md#a", "/errors.md#a"],
    ["a generated page", "https://owner.example/name/reference/rules", "/reference/rules"],
    ["an anchor", "#cost", "#cost"],
    ["another site", "https://other.example/a.md", "https://other.example/a.md"],
  ])("lead to %s", (_, href, expected) => {
    expect(rewriteLink(href, "guide/cost.md", addresses)).toBe(expected);
  });

  it("have the anchors of GitHub", () => {
    expect(slugify("One key, several policies: `combine`")).toBe("one-key-several-policies-combine");
    expect(slugify("What `maxKeys` and `evictions` mean")).toBe("what-maxkeys-and-evictions-mean");
  });
});

describe("the explainer", () => {
  const ALGORITHMS: Algorithm[] = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"];
  const base: Scenario = {
    algorithm: "token-bucket",
    limit: 10,
    windowMs: 1000,
    burst: 20,
    perSecond: 15,
    pattern: "steady",
  };

  it.each([
    ["steady", [0, 66, 133], 9933],
    ["bursts", [0, 16, 33], 8483],
    ["edges", [900, 906, 913], 9093],
  ] as const)("sends the average rate, %s", (pattern, first, last) => {
    const arrivals = arrivalsOf({ ...base, pattern });
    expect(arrivals).toHaveLength((base.perSecond * DURATION_MS) / 1000);
    expect(arrivals.slice(0, 3)).toEqual(first);
    expect(arrivals.at(-1)).toBe(last);
    expect(arrivals).toEqual([...arrivals].sort((a, b) => a - b));
  });

  it.each(ALGORITHMS)("admits what %s admits, whatever the pattern", (algorithm) => {
    for (const pattern of ["steady", "bursts", "edges"] as const) {
      for (const windowMs of [1000, 2000, 5000]) {
        const scenario = { ...base, algorithm, pattern, windowMs };
        let now = 0;
        const limiter = memoryRateLimiter(policyOf(scenario), { clock: { now: () => now } });
        const expected = arrivalsOf(scenario).map((atMs) => {
          now = atMs;
          return limiter.consumeSync("client").allowed;
        });
        const { outcomes, admitted, denied } = simulate(scenario);
        expect(outcomes.map(({ allowed }) => allowed)).toEqual(expected);
        expect([admitted, denied]).toEqual([expected.filter(Boolean).length, expected.filter((one) => !one).length]);
      }
    }
  });

  it("shows the differences between the algorithms at the edge of a window", () => {
    const worst = (algorithm: Algorithm) => simulate({ ...base, algorithm, burst: 10, pattern: "edges" }).worstWindow;
    // Fixed windows admit twice the limit, and a bucket its burst and the refill.
    expect(ALGORITHMS.map(worst)).toEqual([11, 10, 20, 10, 10]);
  });

  it("delays requests in a leaky bucket only", () => {
    const delays = ALGORITHMS.map((algorithm) => simulate({ ...base, algorithm, pattern: "bursts" }).longestDelayMs);
    expect(delays.map((ms) => ms > 0)).toEqual([false, true, false, false, false]);
  });

  it("records the level until the end, within the capacity", () => {
    const { levels, capacity } = simulate(base);
    expect(levels).toHaveLength(DURATION_MS / LEVEL_STEP_MS + 1);
    expect(capacity).toBe(20);
    for (const level of levels) expect(level >= 0 && level <= capacity).toBe(true);
    // After the request at that instant.
    expect(levels[0]).toBe(19);
  });

  it.each(ALGORITHMS)("shows code that makes the policy of %s", (algorithm) => {
    const functions = { tokenBucket, leakyBucket, fixedWindow, slidingWindow, slidingLog };
    for (const windowMs of [1000, 5000]) {
      const scenario = { ...base, algorithm, windowMs };
      const [, name = "", rate, burst] = /^(\w+)\("([^"]+)"(?:, \{ burst: (\d+) \})?\)$/.exec(codeOf(scenario)) ?? [];
      const make = functions[name as keyof typeof functions] as (rate: string, options?: object) => Policy;
      const policyFromCode =
        burst === undefined ? make(rate as string) : make(rate as string, { burst: Number(burst) });
      const resolved = (policy: Policy) => ({ ...memoryRateLimiter(policy).getPolicy(), name: "" });
      expect(resolved(policyFromCode)).toEqual(resolved(policyOf(scenario)));
    }
  });
});
