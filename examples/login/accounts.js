/** Two accounts and their sessions, in memory. Replace this with your own. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

const hash = /** @type {(password: string, salt: Buffer, bytes: number) => Promise<Buffer>} */ (promisify(scrypt));

/** @typedef {{ email: string; name: string; salt: Buffer; hash: Buffer }} Account */

/** @type {Map<string, Account>} */
const accounts = new Map();
for (const [email, name, password] of /** @type {const} */ ([
  ["ada@example.com", "Ada", "analytical engine"],
  ["grace@example.com", "Grace", "first compiler"],
])) {
  const salt = randomBytes(16);
  accounts.set(email, { email, name, salt, hash: await hash(password, salt, 32) });
}
const nobody = { salt: randomBytes(16), hash: randomBytes(32) };

/** Returns the account if the password is right. Takes as long for accounts that don't exist. */
export async function checkPassword(/** @type {string} */ email, /** @type {string} */ password) {
  const account = accounts.get(email);
  const expected = account ?? nobody;
  const isRight = timingSafeEqual(await hash(password, expected.salt, 32), expected.hash);
  return isRight ? account : undefined;
}

/** @type {Map<string, Account>} */
const sessions = new Map();

/** Starts a session and returns its id. */
export function startSession(/** @type {Account} */ account) {
  const id = randomBytes(16).toString("base64url");
  sessions.set(id, account);
  return id;
}

/** The account that a request is logged in to. */
export function sessionOf(/** @type {import("express").Request} */ request) {
  return sessions.get(sessionId(request));
}

/** Ends the session of a request. */
export function endSession(/** @type {import("express").Request} */ request) {
  sessions.delete(sessionId(request));
}

function sessionId(/** @type {import("express").Request} */ request) {
  return /(?:^|; )__Host-session=([\w-]+)/.exec(request.headers.cookie ?? "")?.[1] ?? "";
}
