/** Which part of the dashboard a request is for. The dashboard does not know the path that it is mounted at. */

const NAMES = ["app.css", "app.js", "icon.svg", "data", "events", "key"] as const;

/** What a request is for. */
export interface Target {
  readonly name: "page" | (typeof NAMES)[number];
  /** The path of the page, without a slash at its end. */
  readonly base: string;
  /**
   * What relative URLs in the page start with: nothing if the page's own URL ends with a slash, else its last segment. They
   * also work behind a proxy that removes a part of the path, and no redirect to a slash is needed.
   */
  readonly prefix: string;
}

/** Returns what a request is for; `undefined` for a file that does not exist. */
export function targetOf(request: Request): Target | undefined {
  const { pathname } = new URL(request.url);
  const at = pathname.lastIndexOf("/");
  const last = pathname.slice(at + 1);
  const name = NAMES.find((name) => name === last);
  const isPage = name === undefined;
  // Such as favicon.ico.
  if (isPage && last.includes(".")) return undefined;
  const base = isPage && last !== "" ? pathname : pathname.slice(0, at);
  return { name: name ?? "page", base, prefix: isPage && last !== "" ? `./${last}/` : "./" };
}
