/** What the tests check in every page: console messages, accessibility and layout. `SLUICE_SCREENSHOTS=folder` keeps screenshots. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns a list that grows with the errors in the page's console: violations of the policy and errors of scripts. */
export function consoleErrors(page: Page): string[] {
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // Chromium reports every status from 400, such as that of the challenge page.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      errors.push(message.text());
  });
  return errors;
}

/** The checkbox of the widget. Not to be used with `check`, which waits for it: the page removes the widget at once. */
export const checkbox = (page: Page) => page.frameLocator("iframe").getByRole("checkbox");

/** Solves the challenge, from an element whose next one is the widget. */
export async function solveWithKeyboard(page: Page): Promise<void> {
  await checkbox(page).waitFor();
  await page.keyboard.press("Tab");
  // The frame is another process, which gets the focus later.
  await page.frameLocator("iframe").locator("input:focus").waitFor();
  await page.keyboard.press("Space");
}

/** Writes a screenshot of a page or an element to the folder of screenshots, if there is one. */
export async function screenshot(subject: Page | Locator, name: string, fullPage = false): Promise<void> {
  const folder = process.env.SLUICE_SCREENSHOTS;
  const path = join(folder ?? "", `${name}.png`);
  if (folder) await ("goto" in subject ? subject.screenshot({ path, fullPage }) : subject.screenshot({ path }));
}

/** Findings of axe-core in the page and its frames. */
export async function findings(page: Page): Promise<string[]> {
  for (const frame of page.frames()) await frame.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run(): Promise<{ violations: Finding[] }> } }).axe.run(),
  );
  return violations.map(({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map(({ html }) => html).join(", ")}`);
}

interface Finding {
  id: string;
  impact: string;
  nodes: { html: string }[];
}

/** Whether the page is wider than its window. */
export const overflows = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);

/** Presses Tab until the page has been walked through. Returns the names of what had the focus. */
export async function tabStops(page: Page, max: number): Promise<string[]> {
  const stops: string[] = [];
  for (let i = 0; i < max; i++) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement | null;
      if (!element || element === document.body) return "";
      const input = element as HTMLInputElement;
      const label =
        element.getAttribute("aria-label") ?? input.labels?.[0]?.textContent ?? (element.textContent || element.title);
      return `${label ?? ""}`.replace(/\s+/g, " ").trim();
    });
    if (stop === "") break;
    stops.push(stop);
  }
  return stops;
}
