/** Tests what happens to tests whose server is missing, on every kind of machine. */
import { expect, it } from "vitest";
import { type Action, decideNeed, type Machine } from "./decide-need.js";

const root: Machine = { found: false, platform: "linux", uid: 0, hasApt: true, hasSudo: false, env: {} };
const user: Machine = { ...root, uid: 1000 };
const mac: Machine = { ...user, platform: "darwin", hasApt: false };
const windows: Machine = { ...mac, platform: "win32", uid: undefined };
const CI = { CI: "true" };
const NO_APT = { SLUICE_NO_APT: "1" };

it.each<[machine: string, Machine, Action, reason: string]>([
  ["installed", { ...root, found: true }, "run", ""],
  ["installed, SLUICE_NO_APT", { ...root, found: true, env: NO_APT }, "run", ""],
  ["installed on Windows", { ...windows, found: true }, "run", ""],
  ["root", root, "install", ""],
  ["root in CI", { ...root, env: CI }, "install", ""],
  ["root, empty SLUICE_NO_APT", { ...root, env: { SLUICE_NO_APT: "" } }, "install", ""],
  ["root, SLUICE_NO_APT", { ...root, env: NO_APT }, "skip", "SLUICE_NO_APT is set"],
  ["root in CI, SLUICE_NO_APT", { ...root, env: { ...CI, ...NO_APT } }, "skip", "SLUICE_NO_APT is set"],
  ["root without apt-get", { ...root, hasApt: false }, "skip", "there is no apt-get to install it"],
  ["user with sudo", { ...user, hasSudo: true }, "install", ""],
  ["user", user, "skip", "installing it needs root or passwordless sudo"],
  ["user in CI", { ...user, env: CI }, "fail", "installing it needs root or passwordless sudo"],
  ["user, CI=false", { ...user, env: { CI: "false" } }, "skip", "installing it needs root or passwordless sudo"],
  ["macOS", mac, "skip", "it can't be installed automatically on darwin"],
  ["macOS in CI", { ...mac, env: CI }, "fail", "it can't be installed automatically on darwin"],
  ["macOS in CI, SLUICE_NO_APT", { ...mac, env: { ...CI, ...NO_APT } }, "skip", "SLUICE_NO_APT is set"],
  ["Windows", windows, "skip", "it can't be installed automatically on win32"],
  ["Windows in CI", { ...windows, env: CI }, "fail", "it can't be installed automatically on win32"],
])("%s", (_, machine, action, reason) => {
  expect(decideNeed(machine)).toEqual({ action, reason });
});
