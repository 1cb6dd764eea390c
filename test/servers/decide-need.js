/** Decides what to do about a program that tests need: use it, install it, skip the tests, or fail. */

/**
 * @typedef {object} Machine
 * @property {boolean} found whether the program is there
 * @property {NodeJS.Platform} platform
 * @property {number | undefined} uid undefined on Windows
 * @property {boolean} hasApt whether apt-get is there
 * @property {boolean} hasSudo whether sudo works without a password
 * @property {Readonly<Record<string, string | undefined>>} env
 */

/** @typedef {"run" | "install" | "skip" | "fail"} Action */

/**
 * Returns the action, and for `skip` and `fail` why the program can't be installed.
 * @param {Machine} machine
 * @returns {{ action: Action, reason: string }}
 */
export function decideNeed({ found, env, ...rest }) {
  if (found) return { action: "run", reason: "" };
  if (env.SLUICE_NO_APT) return { action: "skip", reason: "SLUICE_NO_APT is set" };
  const reason = obstacle(rest);
  if (reason === undefined) return { action: "install", reason: "" };
  // A green CI run must not hide tests that never ran.
  return { action: isCI(env) ? "fail" : "skip", reason };
}

/** Whether this is a CI run, where a missing program is an error. */
export function isCI(/** @type {Machine["env"]} */ { CI }) {
  return CI !== undefined && !["", "0", "false"].includes(CI);
}

/** The reason why apt-get can't install a program, or undefined. */
function obstacle(/** @type {Omit<Machine, "found" | "env">} */ { platform, uid, hasApt, hasSudo }) {
  if (platform !== "linux") return `it can't be installed automatically on ${platform}`;
  if (!hasApt) return "there is no apt-get to install it";
  if (uid !== 0 && !hasSudo) return "installing it needs root or passwordless sudo";
  return undefined;
}
