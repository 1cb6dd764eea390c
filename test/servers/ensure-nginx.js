/** Gets nginx onto a machine that does not have it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { aptInstall } from "./apt-install.js";

const run = promisify(execFile);

const ADVICE = "Install nginx 1.20 or newer, so that it is on the PATH";

/** Packages put nginx where only root's PATH leads. */
export const NGINX_PATH = `${process.env.PATH}:/usr/local/sbin:/usr/sbin`;

/** @type {Promise<void> | undefined} */
let ensured;

/** Makes sure that `nginx` exists; installs it with apt where that is possible. */
export function ensureNginx() {
  ensured ??= ensure();
  return ensured;
}

async function ensure() {
  if (await isMissing()) await aptInstall({ name: "nginx", commands: ["nginx"], advice: ADVICE, path: NGINX_PATH });
  if (await isMissing()) throw new Error(`${ADVICE}: there is no nginx.`);
}

function isMissing() {
  return run("nginx", ["-v"], { env: { ...process.env, PATH: NGINX_PATH } }).then(
    () => false,
    () => true,
  );
}
