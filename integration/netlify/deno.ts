/** The versions of Deno that run edge functions: 2.8, which Netlify's tools use, and 2.9. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runtimesFolder } from "../../runtime-tests/install.js";

const here = fileURLToPath(new URL(".", import.meta.url));

export const denos: Readonly<Record<string, string>> = {
  "Deno 2.8": join(here, "node_modules/@deno/linux-x64-glibc/deno"),
  "Deno 2.9": join(runtimesFolder, "node_modules/@deno/linux-x64-glibc/deno"),
};

export const RUN: readonly string[] = ["run", "--allow-net", "--allow-env", "--allow-read", "--no-check", "--no-lock"];
