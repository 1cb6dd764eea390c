/** A token for a dashboard that is opened on the machine that it runs on. */
import { hmacTag } from "../../base/hmac-tag.ts";
import { hostOf } from "./access.ts";

/** A token, and the function that checks it. */
export interface LoopbackToken {
  /** 256 random bits as text. Open the dashboard with `?token=` and this text. */
  readonly token: string;
  /** For `dashboard({ authorize })`. Accepts requests to a loopback address that have the token. */
  readonly authorize: (request: Request) => boolean;
}

const TOKEN_BYTES = 32;
const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?$/;

/** Tokens that were in the address of a request. The dashboard replaces them by a cookie. */
const tokensInAddress = new WeakMap<Request, { readonly cookie: string }>();

/**
 * Creates a 256-bit token and the matching `authorize`, for a dashboard on the loopback interface. The token is accepted as
 * `?token=`, which the dashboard exchanges for a cookie, and as `Authorization: Bearer`.
 */
export function loopbackToken(): LoopbackToken {
  const random = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES));
  const token = btoa(String.fromCharCode(...random))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
  const isToken = comparer(token);
  return {
    token,
    authorize(request) {
      // A site whose name resolves to 127.0.0.1 sends its own name.
      const host = LOOPBACK_HOST.exec(hostOf(request));
      if (!host) return false;
      // Cookies are shared by all ports of a host.
      const name = `sluice-dashboard-${host[1] ?? "default"}`;
      const inAddress = new URL(request.url).searchParams.get("token");
      if (inAddress !== null) {
        const isValid = isToken(inAddress);
        if (isValid) tokensInAddress.set(request, { cookie: `${name}=${token}` });
        return isValid;
      }
      const bearer = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
      return isToken(bearer) || cookiesNamed(request, name).some(isToken);
    },
  };
}

/** The cookie to exchange the token in a request's address for; `undefined` if its address has none. */
export function exchangedCookie(request: Request): string | undefined {
  return tokensInAddress.get(request)?.cookie;
}

/** Compares in constant time: the texts that are compared are hashes with a key of their own. */
function comparer(token: string): (given: string | undefined) => boolean {
  const key = String(crypto.getRandomValues(new Uint32Array(8)));
  const expected = hmacTag(token, key);
  return (given) => given !== undefined && hmacTag(given, key) === expected;
}

function cookiesNamed(request: Request, name: string): string[] {
  const pairs = (request.headers.get("cookie") ?? "").split(";").map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1));
}
