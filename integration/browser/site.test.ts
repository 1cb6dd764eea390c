/**
 * The documentation site in Chromium: every page, links, search, the explainer, accessibility, the keyboard, and pages without
 * JavaScript. Builds the site first.
 */

import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { launchChromium } from "./chromium.ts";
import { expectedNumbers, type Scenario, START } from "./explainer-numbers.ts";
import { consoleErrors, findings, overflows, screenshot, tabStops } from "./inspect-page.ts";
import { brokenLinks, readSite, sitePages } from "./site-files.ts";
import { QUESTIONS, SEARCHES } from "./site-searches.ts";
import { BASE, buildSite, startSite } from "./site-server.ts";

let browser: Browser;
let site: Awaited<ReturnType<typeof startSite>>;
beforeAll(async () => {
  [browser] = await Promise.all([launchChromium(), buildSite()]);
  site = await startSite();
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await site?.close();
});

/** Opens a page, and waits until its scripts run. */
async function open(path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  await page.goto(site.url + path);
  if (options.javaScriptEnabled !== false) await hydrated(page);
  return page;
}

const hydrated = (page: Page) => page.waitForFunction(() => "__vue_app__" in (document.querySelector("#app") ?? {}));

describe("every page", () => {
  it("loads without errors in the console and requests to other sites, and fits the window", async () => {
    const queue = sitePages();
    expect(queue.length).toBeGreaterThan(100);
    const problems: string[] = [];
    const work = async () => {
      const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
      const errors = consoleErrors(page);
      page.on("request", (request) => {
        if (!request.url().startsWith(site.url) && !request.url().startsWith("data:")) errors.push(request.url());
      });
      for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
        const response = await page.goto(site.url + path);
        await hydrated(page);
        if (response?.status() !== 200) errors.push(`status ${response?.status()}`);
        if ((await page.locator("h1").count()) !== 1) errors.push("has not one h1");
        if (await overflows(page)) errors.push("is wider than a phone");
        problems.push(...errors.splice(0).map((error) => `${path}: ${error}`));
      }
      await page.close();
    };
    await Promise.all([work(), work(), work()]);
    expect(problems).toEqual([]);
  }, 180_000);

  it("has links and anchors that lead somewhere", () => {
    const broken = [...sitePages(), "404"].flatMap((page) => brokenLinks(page).map((link) => `${page}: ${link}`));
    expect(broken).toEqual([]);
  });

  it("has a title, a description and a social card", () => {
    const titles = sitePages().map((page) => {
      const html = readSite(`${page === "" || page.endsWith("/") ? `${page}index` : page}.html`);
      const [, title = ""] = /<title>([^<]+)<\/title>/.exec(html) ?? [];
      expect(html, page).toMatch(/<meta name="description" content="[^"]{40,}">/);
      expect(html, page).toMatch(/<meta property="og:image" content="https:[^"]+\/social-card\.png">/);
      return title;
    });
    expect(titles.filter((title, i) => title === "" || titles.indexOf(title) !== i)).toEqual([]);
  });

  it("is in the sitemap, and in llms.txt if readers need it", () => {
    const { homepage } = { homepage: /<loc>([^<]+)<\/loc>/.exec(readSite("sitemap.xml"))?.[1] ?? "" };
    expect(new URL(homepage).pathname.startsWith(BASE)).toBe(true);
    const origin = new URL(homepage).origin + BASE;
    for (const page of sitePages()) expect(readSite("sitemap.xml")).toContain(`<loc>${origin}${page}</loc>`);
    const links = [...readSite("llms.txt").matchAll(/^- \[[^\]]+\]\((\S+)\): \S/gm)].map(([, link]) => link);
    const needed = sitePages().filter((page) => !/^$|^guide\/$|^decisions\/\d|^reference\/./.test(page));
    expect(links.sort()).toEqual(needed.map((page) => origin + page).sort());
    expect(readSite("llms-full.txt")).toContain("# Protect a login form from brute force");
  });

  it("of the API reference has the exports of its import path", () => {
    expect(readSite("reference/express.html")).toContain('id="ratelimit"');
    expect(readSite("reference/sluice.html")).toContain('id="memoryratelimiter"');
    expect(readSite("reference/internals/sluice.html")).toContain("can’t be imported".replace("’", "&#39;"));
  });
});

describe("search", () => {
  it.each(Object.entries(SEARCHES))("for %s finds %s first", async (words, expected) => {
    const page = await open("guide/");
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill(words);
    const first = page.locator("#localsearch-list .result").first();
    await first.waitFor();
    // The list is replaced when the search has ended.
    await page.locator("#localsearch-list mark").first().waitFor();
    await screenshot(page, `site-search-${words}`);
    const found = new URL((await first.getAttribute("href")) ?? "", site.url);
    expect(found.pathname.slice(BASE.length).replace(/\.html$/, "")).toBe(expected);
  });

  it.each(Object.entries(QUESTIONS))("for %s finds %s among the first three", async (words, expected) => {
    const page = await open("guide/");
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill(words);
    await page.locator("#localsearch-list mark").first().waitFor();
    const results = await page.locator("#localsearch-list .result").all();
    const found = await Promise.all(results.map(async (result) => (await result.getAttribute("href")) ?? ""));
    const pages = found.map((href) => new URL(href, site.url).pathname.slice(BASE.length).replace(/\.html$/, ""));
    expect([...new Set(pages)].slice(0, 3)).toContain(expected);
  });
});

describe("the explainer", () => {
  const picture = (page: Page) => page.locator(".explainer path.admitted").getAttribute("d");
  const numbers = (page: Page) => page.locator("[data-number]").allTextContents();

  it("shows the numbers of the library after a change of each control", async () => {
    const page = await open("");
    const scenario: Scenario = { ...START };
    const explainer = page.locator(".explainer");
    expect(await numbers(page)).toEqual(expectedNumbers(scenario));
    const pictures = [await picture(page)];
    const changed = async (change: Partial<Scenario>) => {
      Object.assign(scenario, change);
      expect(await numbers(page), JSON.stringify(scenario)).toEqual(expectedNumbers(scenario));
      pictures.push(await picture(page));
    };
    await explainer.getByRole("slider", { name: "Limit" }).fill("6");
    await changed({ limit: 6 });
    await explainer.getByRole("slider", { name: "Burst" }).fill("25");
    await changed({ burst: 25 });
    await explainer.getByRole("slider", { name: "Traffic" }).fill("33");
    await changed({ perSecond: 33 });
    await explainer.getByRole("combobox").selectOption("2 s");
    await changed({ windowS: 2 });
    for (const pattern of ["Steady", "At window edges"]) {
      await explainer.getByLabel(pattern).check();
      await changed({ pattern });
    }
    for (const algorithm of ["Fixed window", "Sliding log", "Leaky bucket", "Sliding window", "Token bucket"]) {
      await explainer.getByLabel(algorithm, { exact: true }).check();
      await changed({ algorithm });
    }
    for (const [i, one] of pictures.entries()) expect(one, `after change ${i}`).not.toBe(pictures[i - 1]);
  });

  it("describes the result in words and in a table, and plays", async () => {
    const page = await open("");
    const [admitted, denied, share, worst] = expectedNumbers(START);
    const words = `Of 150 requests in 10 s, ${admitted} are admitted and ${denied} denied (${share}). At most ${worst} pass within any 1 s.`;
    expect(await page.locator(".explainer [role=status]").textContent()).toBe(words);
    expect(await page.getByRole("img", { name: words }).count()).toBe(1);
    await page.getByText("Show as a table").click();
    const cells = await page.locator(".explainer td").allTextContents();
    const sum = (column: number) => cells.reduce((sum, cell, i) => sum + (i % 3 === column ? Number(cell) : 0), 0);
    expect([sum(0), sum(1), sum(2)]).toEqual([150, Number(admitted), Number(denied)]);
    await page.getByRole("button", { name: "Play" }).click();
    await page.locator(".explainer rect.future").first().waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    expect(await page.locator(".explainer rect.future").count()).toBe(0);
  });

  it("does not offer to play if the reader prefers reduced motion", async () => {
    const page = await open("", { reducedMotion: "reduce" });
    expect(await page.getByRole("button", { name: "Play" }).count()).toBe(0);
  });
});

describe("accessibility", () => {
  const PAGES = {
    home: "",
    guide: "guide/protect-a-login-form",
    reference: "reference/express",
    missing: "no-such-page",
  };

  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [390, 1280]) {
      it.each(Object.entries(PAGES))(`%s has no serious finding, ${colorScheme}, ${width} px`, async (name, path) => {
        const page = await open(path, { colorScheme, viewport: { width, height: width === 390 ? 844 : 900 } });
        if (name === "home") await page.getByText("Show as a table").click();
        const serious = (await findings(page)).filter((finding) => /^(?:serious|critical)/.test(finding));
        expect(serious).toEqual([]);
        expect(await overflows(page)).toBe(false);
        if (name === "home") {
          await page.getByText("Show as a table").click();
          await page.evaluate(() => scrollTo(0, 0));
        }
        await screenshot(page, `site-${name}-${width}-${colorScheme}`);
        if (name === "home") await screenshot(page.locator(".explainer"), `site-explainer-${width}-${colorScheme}`);
      });
    }
  }

  it("everything on the home page is reached with Tab, in order", async () => {
    const stops = await tabStops(await open(""), 80);
    const expected = [
      "Skip to content",
      "sluice",
      "Search",
      "Guides",
      "Frameworks",
      "Stores",
      "API",
      "sluice on GitHub",
      "Add your first rate limit",
      "Token bucket",
      "Token bucket in detail",
      "Limit 10 per 1 s",
      "Window",
      "Burst 10",
      "Traffic 15 requests per second",
      "Bursts",
      "Play",
      "Show as a table",
      "name the proxy",
    ];
    const positions = expected.map((name) => stops.findIndex((stop) => stop.startsWith(name)));
    expect(positions, stops.join("\n")).toEqual([...positions].sort((a, b) => a - b));
    expect(positions, stops.join("\n")).not.toContain(-1);
  });

  it("the controls of the explainer work with the keyboard", async () => {
    const page = await open("");
    await page.getByLabel("Token bucket", { exact: true }).focus();
    await page.keyboard.press("ArrowRight");
    expect(await page.getByLabel("Leaky bucket", { exact: true }).isChecked()).toBe(true);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowRight");
    expect(await page.locator(".explainer .value").first().textContent()).toBe("11 per 1 s");
  });

  it("the sidebar, the search and the skip link work with the keyboard", async () => {
    const page = await open("guide/first-limit");
    const stops = await tabStops(page, 40);
    for (const name of ["All pages", "Choose a limit", "Basics", "Frameworks", "Help"]) expect(stops).toContain(name);
    await page.locator(".VPSidebar").getByRole("button", { name: "Frameworks" }).focus();
    await page.keyboard.press("Enter");
    await page.locator(".VPSidebar").getByRole("link", { name: "Express" }).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(`${site.url}middleware/express`);
    await page.keyboard.press("Control+k");
    await page.locator("input[type=search]:focus").waitFor();
    await page.keyboard.type("brute force");
    await page.locator("#localsearch-list mark").first().waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/protect-a-login-form/);
    await page.reload();
    await hydrated(page);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("VPContent");
  });
});

describe("without JavaScript", () => {
  it.each([
    ["", "Rate limiting for TypeScript", "Choose an algorithm and a limit"],
    ["guide/protect-a-login-form", "Protect a login form from brute force", "blocks clients that continue"],
    ["reference/express", "sluice/express", "Creates a middleware that limits the requests"],
  ])("%s is readable", async (path, heading, text) => {
    const page = await open(path, { javaScriptEnabled: false });
    expect(await page.getByRole("heading", { level: 1 }).isVisible()).toBe(true);
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toContain(heading);
    expect(await page.locator(".VPContent").getByText(text).first().isVisible()).toBe(true);
    await screenshot(page, `site-no-javascript-${path.replaceAll("/", "-") || "home"}`);
  });

  it("the explainer has numbers, and tabs and groups of the sidebar are open", async () => {
    const home = await open("", { javaScriptEnabled: false });
    expect(await home.locator("[data-number=admitted]").isVisible()).toBe(true);
    expect(await home.locator("noscript p").isVisible()).toBe(true);
    // All tabs are shown below each other.
    expect(await home.getByText("pnpm add sluice").isVisible()).toBe(true);
    const guide = await open("guide/first-limit", { javaScriptEnabled: false });
    expect(await guide.locator(".VPSidebar").getByRole("link", { name: "Behind a proxy" }).isVisible()).toBe(true);
  });
});
