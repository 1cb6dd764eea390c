/** What a limiter writes on a response, beside what the application and other limiters write there. */
import type { HeaderFields } from "./headers/rate-limit-headers.ts";

/** How the headers of a server's response are reached. Names are given in any case, and found in any. */
export interface ResponseHead<Response> {
  get(response: Response, name: string): string | undefined;
  set(response: Response, name: string, value: string): void;
  remove(response: Response, name: string): void;
}

/** What a response tells of the decision. */
export interface PendingHeaders {
  readonly fields: HeaderFields;
  /** Whether nothing is left. */
  readonly exhausted: boolean;
}

/** Writes RateLimit fields on a response that is about to be sent, unless they should not be told there. */
export function addRateLimitHeaders<R>(head: ResponseHead<R>, response: R, status: number, told: PendingHeaders): void {
  if (isWithheld(status, told.exhausted) || mayBeShared(head, response)) return;
  addFields(head, response, told.fields);
}

/** Writes the head of an answer that replaces the application's. */
export function addRejectionHeaders<R>(head: ResponseHead<R>, response: R, headers: HeaderFields): void {
  // They belong to what would have been answered.
  for (const name of ["ETag", "Last-Modified", "Expires"]) head.remove(response, name);
  addFields(head, response, headers);
}

/**
 * A 304 would put the fields on what is stored, clients would delay a redirect when nothing is left, and whoever failed
 * to prove who they are should not learn how much others have used.
 */
function isWithheld(status: number, exhausted: boolean): boolean {
  if (status === 101 || status === 304 || status === 401 || status === 403) return true;
  return exhausted && status >= 300 && status < 400;
}

const SHARED = /(?:^|[\s,])(?:public|s-maxage)(?:$|[\s,=])/i;
const AGED = /(?:^|[\s,])max-age=/i;
// With a value, private names the fields that it is about.
const NOT_SHARED = /(?:^|[\s,])(?:private|no-store)(?:$|[\s,])/i;

/**
 * Whether the response says that a shared cache may store it (RFC 9111, 3), which would send one client's fields to
 * others. Fields for CDNs (RFC 9213) override Cache-Control there. A response without any of these is not stored by
 * default on CDNs, and is told of.
 */
function mayBeShared<R>(head: ResponseHead<R>, response: R): boolean {
  // Lower case, so Node needn't convert it.
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

/** Lists grow, so that several limiters are all told of; of fields that have room for one policy, the tighter stays. */
function addFields<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): void {
  const others = OTHERS.some((name) => head.get(response, name) !== undefined);
  if (!others) for (const name in fields) head.set(response, name, fields[name] as string);
  else addToOthers(head, response, fields);
  if (head.get(response, "access-control-allow-origin") !== undefined) expose(head, response, fields);
}

/** One of these is on every response that somebody else told of. */
const OTHERS = ["ratelimit-policy", "ratelimit", "ratelimit-limit", "x-ratelimit-limit"];

function addToOthers<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): void {
  const stay = tighterBefore(head, response, fields);
  for (const name in fields) {
    if (stay.includes(name)) continue;
    const value = fields[name] as string;
    const before = isList(name, value) ? head.get(response, name) : undefined;
    head.set(response, name, before === undefined || before === value ? value : `${before}, ${value}`);
  }
}

function isList(name: string, value: string): boolean {
  return name === "RateLimit-Policy" || (name === "RateLimit" && !isOfOnePolicy(value));
}

/** Draft-7 has a dictionary where later drafts have a list. */
function isOfOnePolicy(value: string): boolean {
  return value.startsWith("limit=");
}

/** Of older drafts, the fields that an earlier limiter wrote with less left. */
function tighterBefore<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): readonly string[] {
  const stay: string[] = [];
  const { RateLimit: list = "", "RateLimit-Remaining": left, "X-RateLimit-Remaining": legacyLeft } = fields;
  if (left !== undefined && Number(head.get(response, "RateLimit-Remaining") ?? Infinity) <= Number(left)) {
    stay.push("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");
  }
  if (
    legacyLeft !== undefined &&
    Number(head.get(response, "X-RateLimit-Remaining") ?? Infinity) <= Number(legacyLeft)
  ) {
    stay.push("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset");
  }
  if (isOfOnePolicy(list) && remainingOf(head.get(response, "RateLimit") ?? "") <= remainingOf(list)) {
    stay.push("RateLimit");
  }
  return stay;
}

function remainingOf(field: string): number {
  return Number(/remaining=(\d+)/.exec(field)?.[1] ?? Infinity);
}

/** Scripts of another origin see only the headers that are listed. A star would not count where credentials are sent. */
function expose<R>(head: ResponseHead<R>, response: R, fields: HeaderFields): void {
  const before = head.get(response, "Access-Control-Expose-Headers") ?? "";
  const listed = before.split(",").map((name) => name.trim().toLowerCase());
  const ours = ["Retry-After", ...Object.keys(fields).filter((name) => name.includes("RateLimit"))];
  const missing = ours.filter((name) => !listed.includes(name.toLowerCase()));
  if (missing.length === 0) return;
  head.set(response, "Access-Control-Expose-Headers", [...(before === "" ? [] : [before]), ...missing].join(", "));
}
