/** Builds the site once, and serves it as GitHub Pages does: addresses without an ending, and 404.html for all others. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Where the build is. */
export const DIST: string = join(ROOT, "docs/.vitepress/dist");
/** The path of the site on its host. */
export const BASE: string = new URL(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).homepage).pathname;

const TYPES: Record<string, string> = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
  ".xml": "application/xml",
};

/** Builds the site as `npm run docs:build` does. */
export async function buildSite(): Promise<void> {
  const child = spawn(process.execPath, [join(ROOT, "scripts/build-site.js")], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const [status] = await once(child, "close");
  if (status !== 0) throw new Error(`the build of the site ended with ${status}:\n${output.slice(-4000)}`);
}

/** The file of an address below the base, or undefined: "guide/" is guide/index.html, and "rules" rules.html. */
export function fileOf(path: string): string | undefined {
  const relative = decodeURIComponent(path.slice(BASE.length));
  const names = relative === "" || relative.endsWith("/") ? [`${relative}index.html`] : [relative, `${relative}.html`];
  return names.find((name) => existsSync(join(DIST, name)) && extname(name) !== "");
}

/** Starts a server on a free port. */
export async function startSite(): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://localhost");
    const file = pathname.startsWith(BASE) ? fileOf(pathname) : undefined;
    const type = TYPES[extname(file ?? "404.html")] ?? "application/octet-stream";
    response.writeHead(file ? 200 : 404, { "Content-Type": type }).end(readFileSync(join(DIST, file ?? "404.html")));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${BASE}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
