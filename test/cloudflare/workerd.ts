/** Scripts in the real runtime of Cloudflare: what a test starts, and how it asks. Needs `npm run build`. */
import { fileURLToPath } from "node:url";
import { install, runtimesFolder } from "../../runtimes/install.js";

/** What is used of miniflare. */
interface Miniflare {
  readonly ready: Promise<URL>;
  dispatchFetch(url: string, init?: object): Promise<Response>;
  dispose(): Promise<void>;
}

/** A script that runs. */
export interface Workerd {
  /** Where it listens. */
  readonly url: string;
  /** Runs one of its tasks and gives what that returns. */
  ask<T>(task: string, input?: unknown): Promise<T>;
  fetch(path: string, init?: object): Promise<Response>;
  stop(): Promise<void>;
}

/** Starts a script of this folder, or of another one, with such bindings. */
export async function startWorkerd(entry: string | URL, options: object = {}): Promise<Workerd> {
  install(runtimesFolder);
  const { bundled } = (await import("../../runtimes/bundle.js")) as {
    bundled(entry: string, format: "esm"): Promise<string>;
  };
  const { miniflareOf } = (await import("../../runtimes/serve.js")) as {
    miniflareOf(options: object): Promise<Miniflare>;
  };
  const miniflare = await miniflareOf({
    modules: true,
    script: await bundled(fileURLToPath(new URL(entry, import.meta.url)), "esm"),
    ...options,
  });
  const url = String(await miniflare.ready);
  return {
    url,
    async ask(task, input) {
      const response = await miniflare.dispatchFetch(`${url}${task}`, {
        method: "POST",
        body: JSON.stringify(input ?? {}),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${task}: ${response.status} ${text}`);
      return JSON.parse(text);
    },
    fetch: (path, init) => miniflare.dispatchFetch(new URL(path, url).href, init),
    stop: () => miniflare.dispose(),
  };
}
