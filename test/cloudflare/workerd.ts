/** Starts Workers in workerd, Cloudflare's runtime. Needs `npm run build`. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { install, workerdFolder } from "../../runtime-tests/install.js";

/** The few methods of Miniflare that are used. */
interface Miniflare {
  readonly ready: Promise<URL>;
  dispatchFetch(url: string, init?: object): Promise<Response>;
  getBindings(): Promise<Record<string, unknown>>;
  dispose(): Promise<void>;
}

interface Bundle {
  bundle(entry: string, format: "esm"): Promise<string>;
}

interface Serve {
  createMiniflare(options: object): Promise<Miniflare>;
}

const at = (path: string | URL): string => fileURLToPath(new URL(path, import.meta.url));

/** A running Worker. */
export interface Workerd {
  /** Its address. */
  readonly url: string;
  /** Runs one of its tasks and returns the result. */
  run<T>(task: string, input?: unknown): Promise<T>;
  fetch(path: string, init?: object): Promise<Response>;
  /** Its bindings, as proxies for use in Node. */
  bindings(): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

/** Creates a folder for storage, in memory if possible: thousands of grants are flushed one after the other. */
export function storageFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "sluice-workerd-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Starts a Worker. `entry` is relative to this folder, and `options` are those of Miniflare. */
export async function startWorkerd(entry: string | URL, options: object = {}): Promise<Workerd> {
  install(workerdFolder);
  // Not static imports: their dependencies are installed above, and missing when types are checked.
  const { bundle } = (await import(at("../../runtime-tests/workerd/bundle.js"))) as Bundle;
  const { createMiniflare } = (await import(at("../../runtime-tests/workerd/serve.js"))) as Serve;
  const storage = storageFolder();
  const miniflare = await createMiniflare({
    modules: true,
    script: await bundle(at(entry), "esm"),
    durableObjectsPersist: storage.path,
    ...options,
  });
  const url = String(await miniflare.ready);
  return {
    url,
    async run(task, input) {
      const response = await miniflare.dispatchFetch(`${url}${task}`, {
        method: "POST",
        body: JSON.stringify(input ?? {}),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${task}: ${response.status} ${text}`);
      return JSON.parse(text);
    },
    fetch: (path, init) => miniflare.dispatchFetch(new URL(path, url).href, init),
    bindings: () => miniflare.getBindings(),
    async stop() {
      await miniflare.dispose();
      storage.remove();
    },
  };
}
