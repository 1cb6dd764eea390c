/** The responses of the dashboard, all with the same security headers. */
import type { Target } from "./target.ts";

/** Everything that the page loads is served by the dashboard itself. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  // no-transform: middleware that compresses responses would hold events back.
  "Cache-Control": "no-store, no-transform",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  // Prevents nginx from buffering events.
  "X-Accel-Buffering": "no",
};

/** A response with content. */
export function reply(body: string | ReadableStream<Uint8Array>, type: string): Response {
  return new Response(body, { headers: { ...HEADERS, "Content-Type": `${type}; charset=utf-8` } });
}

/** A response without content. It gives no details. */
export function respond(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(`${text}\n`, {
    status,
    headers: { ...HEADERS, "Content-Type": "text/plain; charset=utf-8", ...headers },
  });
}

/** Moves the token from the address to a cookie, so that it is neither in the history nor in a screenshot. */
export function withoutToken(request: Request, { base, prefix }: Target, cookie: string): Response {
  const { searchParams } = new URL(request.url);
  searchParams.delete("token");
  const query = searchParams.size > 0 ? `?${searchParams}` : "";
  // A cookie's path can't contain a semicolon.
  const path = base === "" || base.includes(";") ? "/" : base;
  return respond(303, "See Other", {
    Location: `${prefix === "./" ? "./" : prefix.slice(0, -1)}${query}`,
    "Set-Cookie": `${cookie}; Path=${path}; HttpOnly; SameSite=Strict`,
  });
}
