/** The challenge page in Chromium, with a stand-in for the provider. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { hcaptcha, type ProviderOptions, recaptcha, type TranslatedMessages } from "sluice/abuse";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type SiteverifyServer, startSiteverify } from "../../test/servers/siteverify.js";
import { type AppOptions, PROVIDER_SECRET, startApp } from "./challenge-app.ts";
import { launchChromium } from "./chromium.ts";
import { checkbox, consoleErrors, findings, overflows, screenshot, solveWithKeyboard } from "./inspect-page.ts";

let browser: Browser;
let siteverify: SiteverifyServer;
beforeAll(async () => {
  [browser, siteverify] = await Promise.all([launchChromium(), startSiteverify({ secret: PROVIDER_SECRET })]);
});
afterAll(async () => {
  await browser?.close();
  await siteverify?.close();
});
beforeEach(() => {
  siteverify.requests.length = 0;
  siteverify.behave("verify");
  siteverify.setWidget(true);
});

/** Opens a page of the app. `problems` are the messages of the console: violations of the policy and errors of scripts. */
async function open(path: string, app: AppOptions = {}, context: BrowserContextOptions = {}, verifier = siteverify) {
  const { url, close } = await startApp(verifier, app);
  const session = await browser.newContext({ locale: "en-GB", ...context });
  onTestFinished(async () => {
    await session.close();
    await close();
  });
  const page = await session.newPage();
  const problems = consoleErrors(page);
  const response = await page.goto(url + path);
  return { page, url, problems, response };
}

const retry = (page: Page) => page.getByRole("button", { name: "Try again" });
const status = (page: Page) => page.getByRole("status");
const welcome = (page: Page) => page.getByRole("heading", { name: "Welcome" }).waitFor();
const hasText = (page: Page, text: string) => status(page).filter({ hasText: text }).waitFor();

const GERMAN: TranslatedMessages = {
  lang: "de",
  title: "Bestätigen Sie, dass Sie ein Mensch sind",
  intro: "Von Ihrem Anschluss kamen viele Anfragen. Lösen Sie diese Aufgabe, um zur Seite zu gelangen.",
  failed: "Die Lösung wurde nicht angenommen. Versuchen Sie es noch einmal.",
  retry: "Noch einmal versuchen",
};

describe.each([390, 1280])("the page at %s px", (width) => {
  describe.each(["light", "dark"] as const)("in %s mode", (colorScheme) => {
    const context = { viewport: { width, height: width === 390 ? 844 : 800 }, colorScheme };

    it("is accessible and fits", async () => {
      const { page, problems } = await open("/page", {}, context);
      await checkbox(page).waitFor();
      await screenshot(page, `page-${width}-${colorScheme}`);
      expect(await findings(page)).toEqual([]);
      expect(await overflows(page)).toBe(false);
      expect(problems).toEqual([]);
    });

    it("is accessible and fits after an error", async () => {
      siteverify.setWidget(false);
      const { page } = await open("/page", {}, context);
      await retry(page).waitFor();
      await screenshot(page, `error-${width}-${colorScheme}`);
      expect(await findings(page)).toEqual([]);
      expect(await overflows(page)).toBe(false);
    });
  });
});

describe("the page", () => {
  // As in a window of 1280 px at 400 %.
  it("has a compact widget that fits at 320 px", async () => {
    const { page } = await open("/page", {}, { viewport: { width: 320, height: 640 } });
    await checkbox(page).waitFor();
    await screenshot(page, "compact");
    expect(await overflows(page)).toBe(false);
    await checkbox(page).click();
    await welcome(page);
  });

  it("can be solved with the keyboard, and leads to the requested page", async () => {
    const { page, problems, response, url } = await open("/page?a=1#part");
    expect(response?.status()).toBe(403);
    expect(response?.headers()["sluice-mitigated"]).toBe("challenge");
    await solveWithKeyboard(page);
    await welcome(page);
    expect(page.url()).toBe(`${url}/page?a=1#part`);
    expect(problems).toEqual([]);
    // One verification, whose request contains the token of this page.
    expect(siteverify.requests.map(({ fields }) => fields.get("remoteip"))).toEqual(["127.0.0.1"]);
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({
      name: "__Host-sluice-clearance",
      secure: true,
      httpOnly: true,
      sameSite: "Lax",
      path: "/",
    });
    await page.goto(`${url}/other`);
    await welcome(page);
  });

  it("after a submitted form leads back to the form, which keeps its values", async () => {
    const { page, problems } = await open("/form");
    await page.getByLabel("Name").fill("Ada");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("your form was not submitted").waitFor();
    await checkbox(page).click();
    await hasText(page, "Verified. Go back and submit the form again.");
    await screenshot(page, "form-solved");
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Send" }).waitFor();
    expect(await page.getByLabel("Name").inputValue()).toBe("Ada");
    await page.getByRole("button", { name: "Send" }).click();
    await welcome(page);
    expect(problems).toEqual([]);
  });

  it("without JavaScript says that it is needed", async () => {
    const { page } = await open("/page", {}, { javaScriptEnabled: false });
    await screenshot(page, "no-script");
    // Not by text, which ignores this element.
    const sentence = page.locator("noscript p");
    expect(await sentence.isVisible()).toBe(true);
    expect(await sentence.textContent()).toBe(
      "This check needs JavaScript. Enable JavaScript, then load the page again.",
    );
  });

  it("is in German for German browsers, and in English for others", async () => {
    const messages = (accept: string | undefined) => (/^de\b/.test(accept ?? "") ? GERMAN : {});
    const german = await open("/page", { challenge: { messages }, hostname: "other.example" }, { locale: "de-DE" });
    await german.page.getByRole("heading", { name: "Bestätigen Sie, dass Sie ein Mensch sind" }).waitFor();
    expect(await german.page.locator("html").getAttribute("lang")).toBe("de");
    await checkbox(german.page).click();
    await hasText(german.page, "Die Lösung wurde nicht angenommen.");
    await german.page.getByRole("button", { name: "Noch einmal versuchen" }).waitFor();
    await screenshot(german.page, "german-failed");
    expect(await findings(german.page)).toEqual([]);
    const english = await open("/page", { challenge: { messages } });
    await english.page.getByRole("heading", { name: "Confirm that you are human" }).waitFor();
  });

  it("can be solved again if the widget could not be loaded", async () => {
    siteverify.setWidget(false);
    const { page } = await open("/page");
    await hasText(page, "The check could not be loaded.");
    siteverify.setWidget(true);
    await retry(page).press("Enter");
    await checkbox(page).click();
    await welcome(page);
  });

  it("can be solved again if the solution could not be verified", async () => {
    siteverify.behave("fail");
    const { page } = await open("/page");
    await checkbox(page).click();
    await hasText(page, "The check can't be verified at the moment.");
    siteverify.behave("verify");
    await retry(page).press("Enter");
    await solveWithKeyboard(page);
    await welcome(page);
  });

  it("does not load itself forever if the browser keeps no cookies", async () => {
    const { page } = await open("/page", { setsCookies: false });
    await checkbox(page).click();
    await hasText(page, "your browser did not keep the result");
    await screenshot(page, "not-kept");
    expect(siteverify.requests).toHaveLength(1);
  });

  const score = (options: ProviderOptions) => recaptcha({ ...options, keyType: "score" });
  it.each([
    ["hcaptcha", "a checkbox", hcaptcha],
    ["recaptcha", "a checkbox", recaptcha],
    ["recaptcha", "a score", score],
  ] as const)("works with %s and %s", async (provider, kind, createProvider) => {
    const verifier = await startSiteverify({ provider, secret: PROVIDER_SECRET });
    onTestFinished(verifier.close);
    const { page, problems } = await open("/page", { createProvider }, {}, verifier);
    if (kind === "a checkbox") await checkbox(page).click();
    await welcome(page);
    expect(problems).toEqual([]);
    expect(verifier.requests).toHaveLength(1);
  });

  it("can't be shown in a frame of another page", async () => {
    const { page, url } = await open("/form");
    await page.setContent(`<iframe src="${url}/page"></iframe>`);
    await page.waitForLoadState("networkidle");
    expect(await page.frameLocator("iframe").getByRole("heading").count()).toBe(0);
  });

  it("of renderPage has a nonce that works", async () => {
    const { page, problems } = await open("/page", {
      challenge: {
        renderPage: ({ nonce, rule }) =>
          `<!doctype html><title>Own</title><h1>${rule}</h1><script nonce="${nonce}">document.title = "ran"</script><script>document.title = "injected"</script>`,
      },
    });
    expect(await page.title()).toBe("ran");
    expect(problems.join()).toMatch(/Content Security Policy/);
  });
});
