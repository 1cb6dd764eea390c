/** Finds nginx, or installs it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ensureProgram } from "./ensure-program.js";

const run = promisify(execFile);

/** Debian installs nginx into /usr/sbin, which is only in the PATH of root. */
export const NGINX_PATH = `${process.env.PATH}:/usr/local/sbin:/usr/sbin`;

/** @type {Promise<void> | undefined} */
let ensured;

/** Ensures that `nginx` exists. Installs it with apt if possible. */
export function ensureNginx() {
  ensured ??= ensureProgram({
    name: "nginx",
    commands: ["nginx"],
    advice: "Install nginx 1.20 or newer and add it to the PATH.",
    problem: findProblem,
    path: NGINX_PATH,
  });
  return ensured;
}

function findProblem() {
  return run("nginx", ["-v"], { env: { ...process.env, PATH: NGINX_PATH } }).then(
    () => undefined,
    () => "there is no nginx",
  );
}
