/** Adds RateLimit and rejection headers to a response that the application and other limiters write to as well. */
import type { HeaderFields } from "./headers/field-writer.ts";

/** Fields of a response. Only `Set-Cookie` may have several values. */
export type ResponseFields = Readonly<Record<string, string | readonly string[]>>;

/** Access to the headers of a server's response. Names are case-insensitive. */
export interface ResponseHead<Response> {
  get(response: Response, name: string): string | undefined;
  set(response: Response, name: string, value: string): void;
  /** Adds a value to those that are set. Called for `Set-Cookie` only, whose values can't be joined. */
  append(response: Response, name: string, value: string): void;
  remove(response: Response, name: string): void;
}

/** RateLimit fields to add when the response is sent. */
export interface PendingHeaders {
  readonly fields: HeaderFields;
  /** Whether `remaining` is 0. */
  readonly exhausted: boolean;
}

/** Adds RateLimit fields to a response that is about to be sent, unless its status or caching forbids them. */
export function addRateLimitHeaders<R>(
  head: ResponseHead<R>,
  response: R,
  status: number,
  { fields, exhausted }: PendingHeaders,
): void {
  if (isWithheld(status, exhausted) || mayBeShared(head, response)) return;
  addFields(head, response, fields);
}

/** Sets the headers of a rejection, which replaces the application's response. */
export function addRejectionHeaders<R>(head: ResponseHead<R>, response: R, headers: HeaderFields): void {
  removeValidators(head, response);
  addFields(head, response, headers);
}

/** Sets the headers of an answer, which replaces the application's response, as they are. */
export function addAnswerHeaders<R>(head: ResponseHead<R>, response: R, headers: ResponseFields): void {
  removeValidators(head, response);
  setFields(head, response, headers);
}

/** Sets fields whatever the status is. Cookies and exposed headers are added to those of the application. */
export function setFields<R>(head: ResponseHead<R>, response: R, fields: ResponseFields): void {
  for (const name in fields) {
    const values = [fields[name] as string | readonly string[]].flat();
    if (name.toLowerCase() === "set-cookie") for (const value of values) head.append(response, name, value);
    else if (name === EXPOSED) addExposed(head, response, values);
    else head.set(response, name, values.join(", "));
  }
}

/** Validators and expiry belong to the response that is replaced. */
function removeValidators<R>(head: ResponseHead<R>, response: R): void {
  for (const name of ["ETag", "Last-Modified", "Expires"]) head.remove(response, name);
}

/**
 * A 304 would attach the fields to a cached response. Clients would delay a redirect if nothing remains. An
 * unauthenticated client must not see another user's usage.
 */
function isWithheld(status: number, exhausted: boolean): boolean {
  if (status === 101 || status === 304 || status === 401 || status === 403) return true;
  return exhausted && status >= 300 && status < 400;
}

const SHARED = /(?:^|[\s,])(?:public|s-maxage)(?:$|[\s,=])/i;
const AGED = /(?:^|[\s,])max-age=/i;
// With a value, private applies only to the fields that it lists.
const NOT_SHARED = /(?:^|[\s,])(?:private|no-store)(?:$|[\s,])/i;

/**
 * Whether a shared cache may store the response (RFC 9111, 3), which would send one client's fields to others. Fields
 * for CDNs (RFC 9213) override Cache-Control there. CDNs don't store a response that has none of these fields.
 */
function mayBeShared<R>(head: ResponseHead<R>, response: R): boolean {
  // Lower case, so Node doesn't have to convert the name.
  const cacheControl = head.get(response, "cache-control");
  const cdn = head.get(response, "cdn-cache-control");
  const surrogate = head.get(response, "surrogate-control");
  const expires = head.get(response, "expires");
  // Most responses have none of them.
  if ((cacheControl ?? cdn ?? surrogate ?? expires) === undefined) return false;
  if (SHARED.test(cacheControl ?? "")) return true;
  if ([cdn, surrogate].some((field) => field !== undefined && !NOT_SHARED.test(field))) return true;
  if (NOT_SHARED.test(cacheControl ?? "")) return false;
  // Expires: 0 is the usual way to write "already expired".
  return AGED.test(cacheControl ?? "") || !/^(?:0|-1)?$/.test(expires ?? "");
}

/** Appends to list fields, so several limiters are all listed; a field for one policy keeps the tighter one. */
function addFields<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): void {
  const isFirst = MARKER_FIELDS.every((name) => head.get(response, name) === undefined);
  if (isFirst) for (const name in fields) head.set(response, name, fields[name] as string);
  else mergeFields(head, response, fields);
  if (head.get(response, "access-control-allow-origin") !== undefined) expose(head, response, fields);
}

/** Every response that another limiter has written to has one of these. */
const MARKER_FIELDS = ["ratelimit-policy", "ratelimit", "ratelimit-limit", "x-ratelimit-limit"];

function mergeFields<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): void {
  const kept = tighterFields(head, response, fields);
  for (const name in fields) {
    if (kept.includes(name)) continue;
    const value = fields[name] as string;
    const before = isList(name, value) ? head.get(response, name) : undefined;
    head.set(response, name, before === undefined || before === value ? value : `${before}, ${value}`);
  }
}

function isList(name: string, value: string): boolean {
  return name === "RateLimit-Policy" || (name === "RateLimit" && !isDictionary(value));
}

/** Draft-7 has a dictionary where later drafts have a list. */
function isDictionary(value: string): boolean {
  return value.startsWith("limit=");
}

/** The names of older drafts' fields in which an earlier limiter has less remaining. */
function tighterFields<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): readonly string[] {
  const kept: string[] = [];
  const { RateLimit: field = "", "RateLimit-Remaining": remaining, "X-RateLimit-Remaining": legacyRemaining } = fields;
  if (remaining !== undefined && Number(head.get(response, "RateLimit-Remaining") ?? Infinity) <= Number(remaining)) {
    kept.push("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");
  }
  if (
    legacyRemaining !== undefined &&
    Number(head.get(response, "X-RateLimit-Remaining") ?? Infinity) <= Number(legacyRemaining)
  ) {
    kept.push("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset");
  }
  if (isDictionary(field) && remainingOf(head.get(response, "RateLimit") ?? "") <= remainingOf(field)) {
    kept.push("RateLimit");
  }
  return kept;
}

function remainingOf(field: string): number {
  return Number(/remaining=(\d+)/.exec(field)?.[1] ?? Infinity);
}

/** Scripts of another origin can read only listed headers. `*` does not apply to requests with credentials. */
function expose<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): void {
  addExposed(head, response, ["Retry-After", ...Object.keys(fields).filter((name) => name.includes("RateLimit"))]);
}

const EXPOSED = "Access-Control-Expose-Headers";

function addExposed<R>(head: ResponseHead<R>, response: R, names: readonly string[]): void {
  const before = head.get(response, EXPOSED) ?? "";
  const listed = before.split(",").map((name) => name.trim().toLowerCase());
  const missing = names.filter((name) => !listed.includes(name.toLowerCase()));
  if (missing.length > 0) head.set(response, EXPOSED, [...(before === "" ? [] : [before]), ...missing].join(", "));
}
