/** Installs nginx if it is missing. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { aptInstall } from "./apt-install.js";

const run = promisify(execFile);

const ADVICE = "Install nginx 1.20 or newer and add it to the PATH.";

/** Debian installs nginx into /usr/sbin, which is only in the PATH of root. */
export const NGINX_PATH = `${process.env.PATH}:/usr/local/sbin:/usr/sbin`;

/** @type {Promise<void> | undefined} */
let ensured;

/** Ensures that `nginx` exists. Installs it with apt if possible. */
export function ensureNginx() {
  ensured ??= ensure();
  return ensured;
}

async function ensure() {
  if (await isMissing()) await aptInstall({ name: "nginx", commands: ["nginx"], advice: ADVICE, path: NGINX_PATH });
  if (await isMissing()) throw new Error(`${ADVICE} Reason: nginx was not found.`);
}

function isMissing() {
  return run("nginx", ["-v"], { env: { ...process.env, PATH: NGINX_PATH } }).then(
    () => false,
    () => true,
  );
}
