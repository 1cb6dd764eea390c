/** Starts Debian's Chromium without a window. */
import { type Browser, chromium } from "playwright-core";
import { ensureChromium } from "../../test/servers/ensure-chromium.js";

/** No sandbox, which root can't use; nothing that sends requests of its own. */
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts Chromium, with further arguments if needed. It ends with this process at the latest. */
export async function launchChromium(...more: string[]): Promise<Browser> {
  return chromium.launch({ executablePath: await ensureChromium(), headless: true, args: [...ARGS, ...more] });
}
