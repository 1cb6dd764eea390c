/** Handlers that report their name and the target that the middleware has seen, for the tests of rules. */
import type { RequestEvent } from "@sveltejs/kit";

export function reportAs(name: string): (event: RequestEvent) => Response {
  return ({ request: { url } }) => {
    const target = url.slice(url.indexOf("/", url.indexOf("//") + 2)).split("#", 1)[0] as string;
    return new Response("ok", { headers: { "X-Handler": name, "X-Target": encodeURIComponent(target) } });
  };
}
