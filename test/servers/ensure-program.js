/** Finds the programs that tests need, and installs a missing one where that is possible. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { aptInstall } from "./apt-install.js";
import { decideNeed } from "./decide-need.js";

const run = promisify(execFile);

/**
 * @typedef {object} Program
 * @property {string} name the Debian package
 * @property {string[]} commands the commands that it provides
 * @property {string} advice how to install it by hand, as a sentence
 * @property {() => Promise<string | undefined>} problem why the program can't be used, or undefined
 * @property {string} [path] where to look for it. Default: PATH
 */

/** Ensures that a program can be used. Announces an installation, and rejects if it is missing and can't be installed. */
export async function ensureProgram(/** @type {Program} */ program) {
  const { name, commands, advice, path } = program;
  const { action, problem, reason } = await decideProgram(program);
  if (action === "run") return;
  if (action !== "install") throw new Error(`${advice} Reason: ${problem}, and ${reason}.`);
  console.log(`Installing ${name} with apt-get, because ${problem}. SLUICE_NO_APT=1 prevents this.`);
  await aptInstall({ name, commands, advice, path });
  const left = await program.problem();
  if (left !== undefined) throw new Error(`${advice} Reason: ${left}.`);
}

/** Looks for a program and at this machine, and decides what to do. */
export async function decideProgram(/** @type {Program} */ program) {
  const problem = await program.problem();
  const found = problem === undefined;
  const decision = decideNeed({
    found,
    platform: process.platform,
    uid: process.getuid?.(),
    hasApt: !found && (await succeeds("apt-get", "--version")),
    hasSudo: !found && (await succeeds("sudo", "-n", "true")),
    env: process.env,
  });
  return { ...decision, problem };
}

function succeeds(/** @type {string} */ command, /** @type {string[]} */ ...args) {
  return run(command, args).then(
    () => true,
    () => false,
  );
}
