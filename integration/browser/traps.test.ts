/**
 * Traps in Chromium: pages of other sites that send their visitors to one, and a client that is no browser. The browser decides
 * which headers say where a request comes from, so no other test can know them.
 */
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { launchChromium } from "./chromium.ts";
import { startLoginApp } from "./login-app.ts";

let browser: Browser;
let app: Awaited<ReturnType<typeof startLoginApp>>;
let otherSite: Server;
let [appPort, otherPort] = ["", ""];
/** The page of the other site. */
let html = "";

beforeAll(async () => {
  // For sites without HTTPS: Chromium treats loopback like HTTPS.
  const names = "--host-resolver-rules=MAP *.example 127.0.0.1";
  [browser, app] = await Promise.all([launchChromium(names), startLoginApp()]);
  otherSite = createServer((request, response) => {
    const [path, location] = (request.url ?? "").split("?");
    if (path === "/redirect") response.writeHead(302, { Location: decodeURIComponent(location ?? "") }).end();
    else response.writeHead(200, { "Content-Type": "text/html" }).end(`<!doctype html><title>Other</title>${html}`);
  });
  otherSite.listen(0, "127.0.0.1");
  await once(otherSite, "listening");
  otherPort = String((otherSite.address() as AddressInfo).port);
  appPort = new URL(app.url).port;
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
  otherSite?.close();
  otherSite?.closeAllConnections();
});
let visitor: string;
beforeEach(() => {
  visitor = app.nextVisitor();
});

/** Where the app and the other site are. */
const SITES = {
  "another site": { app: "127.0.0.1", other: "localhost" },
  "another port of the same host": { app: "127.0.0.1", other: "127.0.0.1" },
  "another site, both without HTTPS": { app: "app.example", other: "other.example" },
};

/** What a page can do without its visitor. */
const PASSIVE: Readonly<Record<string, (trap: string) => string>> = {
  image: (trap) => `<img src="${trap}">`,
  "image of a style sheet": (trap) => `<style>body { background: url("${trap}") }</style>`,
  "redirected image": (trap) => `<img src="${redirect(trap)}">`,
  prefetch: (trap) => `<link rel="prefetch" href="${trap}">`,
  frame: (trap) => `<iframe src="${trap}"></iframe>`,
  "sandboxed frame": (trap) => `<iframe sandbox src="${trap}"></iframe>`,
  script: (trap) => `<script src="${trap}"></script>`,
  fetch: (trap) => `<script>fetch("${trap}", { mode: "no-cors" })</script>`,
  beacon: (trap) => `<script>navigator.sendBeacon("${trap}")</script>`,
};
const WITHOUT_REFERRER: typeof PASSIVE = {
  "image without referrer": (trap) => `<img referrerpolicy="no-referrer" src="${trap}">`,
  "fetch without referrer": (trap) =>
    `<script>fetch("${trap}", { mode: "no-cors", referrerPolicy: "no-referrer" })</script>`,
};
/** Only for URLs with HTTPS or on loopback. */
const SPECULATIVE: typeof PASSIVE = {
  "speculative prefetch": (trap) => speculate("prefetch", trap),
  "speculative prerender": (trap) => speculate("prerender", trap),
};
/** What a visitor does in the page, or the page instead. */
const NAVIGATIONS: Readonly<Record<string, (trap: string) => string>> = {
  link: (trap) => `<a href="${trap}">Go</a>`,
  "redirected link": (trap) => `<a href="${redirect(trap)}">Go</a>`,
  form: (trap) => `<form method="post" action="${trap}"><button>Go</button></form>`,
  refresh: (trap) => `<meta http-equiv="refresh" content="0;url=${trap}">`,
};
const LINK_WITHOUT_REFERRER: typeof NAVIGATIONS = {
  "link without referrer": (trap) => `<a rel="noreferrer" href="${trap}">Go</a>`,
};

const redirect = (trap: string) => `/redirect?${encodeURIComponent(trap)}`;
const speculate = (kind: string, trap: string) =>
  `<script type="speculationrules">{"${kind}":[{"urls":["${trap}"],"eagerness":"immediate"}]}</script>`;

/** Opens a page of the other site that uses all of these at once. Resolves when the app has received a request of each. */
async function visit(where: keyof typeof SITES, attacks: typeof PASSIVE): Promise<{ page: Page; url: string }> {
  const [url, other] = [`http://${SITES[where].app}:${appPort}`, `http://${SITES[where].other}:${otherPort}`];
  const traps = Object.entries(attacks).map(([name, render]) => ({
    path: `/.git/${name.replaceAll(" ", "-")}`,
    render,
  }));
  html = traps.map(({ path, render }) => render(url + path)).join("\n");
  const page = await openPage();
  await page.goto(other);
  const target = page.locator("a, form button");
  if (await target.count()) await target.click();
  await expect
    .poll(() => traps.map(({ path }) => path).filter((path) => !app.requests.some((request) => request.path === path)))
    .toEqual([]);
  return { page, url };
}

async function openPage(): Promise<Page> {
  const context = await browser.newContext();
  onTestFinished(() => context.close());
  return context.newPage();
}

/** The status of the next page of the app, in another tab: the first one may still be loading. */
async function nextStatus({ page, url }: { page: Page; url: string }): Promise<number | undefined> {
  const tab = await page.context().newPage();
  return (await tab.goto(url))?.status();
}

/** Where the requests came from, according to the browser. */
const origins = () =>
  app.requests.map(({ path, headers }) =>
    `${path} ${headers["sec-fetch-site"]} ${headers["sec-purpose"] ?? ""}`.trim(),
  );

describe("a visitor of another page that sends requests to traps", () => {
  const secure = { ...PASSIVE, ...WITHOUT_REFERRER, ...SPECULATIVE };
  it.each([
    ["another site", secure],
    ["another port of the same host", secure],
    ["another site, both without HTTPS", PASSIVE],
  ] as const)("on %s is not blocked", async (where, attacks) => {
    const visited = await visit(where, attacks);
    const seen = origins();
    expect(await nextStatus(visited), seen.join("\n")).toBe(200);
  });

  describe.each(Object.keys(SITES) as (keyof typeof SITES)[])("on %s", (where) => {
    const hasMetadata = SITES[where].app === "127.0.0.1";
    it.each(Object.entries({ ...NAVIGATIONS, ...(hasMetadata && LINK_WITHOUT_REFERRER) }))(
      "is not blocked by this: %s",
      async (name, render) => {
        expect(await nextStatus(await visit(where, { [name]: render }))).toBe(200);
      },
    );
  });
});

describe("known limits: a visitor is blocked", () => {
  // Without HTTPS, browsers say nothing else about where a request comes from.
  it.each(Object.entries({ ...WITHOUT_REFERRER, ...LINK_WITHOUT_REFERRER }))(
    "by this of another site, both without HTTPS: %s",
    async (name, render) => {
      expect(await nextStatus(await visit("another site, both without HTTPS", { [name]: render }))).toBe(429);
    },
  );

  // Both are `Sec-Fetch-Site: none`, as are links in mails and in other programs.
  it.each([
    ["of the trap", (trap: string) => trap],
    ["of another site that redirects to the trap", (trap: string) => `http://localhost:${otherPort}${redirect(trap)}`],
  ])("by a URL in the address bar %s", async (_, urlFor) => {
    const page = await openPage();
    await page.goto(urlFor(`${app.url}/.env`));
    expect(origins()).toEqual(["/.env none"]);
    expect(await nextStatus({ page, url: app.url })).toBe(429);
  });
});

describe("a page of the app itself", () => {
  it("blocks nobody by an image that another user put into it", async () => {
    const page = await openPage();
    await page.goto(app.url);
    await page.evaluate(() => {
      const image = document.createElement("img");
      image.src = "/.env";
      document.body.append(image);
    });
    await expect.poll(origins).toContain("/.env same-origin");
    expect(await nextStatus({ page, url: app.url })).toBe(200);
  });
});

describe("a client that is no browser", () => {
  const statusOf = async (url: string, path: string) => {
    const [response] = (await once(get(url + path), "response")) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  };

  it.each(["/.env", "/wp-login.php", "/.git/config"])(
    "gets 404 for %s and is blocked everywhere at once",
    async (trap) => {
      expect(await statusOf(app.url, "/")).toBe(200);
      expect(await statusOf(app.url, trap)).toBe(404);

      for (const path of ["/", "/login.css", "/other"]) {
        for (const url of [app.url, app.secondUrl]) expect(await statusOf(url, path), url + path).toBe(429);
      }
      // Traps look like any page that does not exist, also to those who are blocked.
      expect(await statusOf(app.url, trap)).toBe(404);
      const headers = { authorization: "Bearer operator" };
      const block = await fetch(`${app.url}/operator/blocks/ip:${visitor}`, { headers });
      expect(await block.json()).toMatchObject({ blocked: true, strikes: 10 });
      app.nextVisitor();
      expect(await statusOf(app.url, "/")).toBe(200);
    },
  );
});
