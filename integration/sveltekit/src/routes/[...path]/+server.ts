/** The handlers of the suite. */
import type { RequestHandler } from "@sveltejs/kit";
import { getRateLimit } from "sluice/sveltekit";
import { routeOf } from "../../routes.ts";

export const fallback: RequestHandler = async (event) => {
  const route = routeOf(event);
  if (!route) return new Response("not found", { status: 404 });
  const { signal } = event.request;
  const disconnected = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  const { status, headers, body } = await route.handle(event.url.pathname, disconnected, getRateLimit(event));
  const sent = new Headers(route.before as Record<string, string>);
  for (const [name, value] of Object.entries(headers)) {
    const values = [value].flat();
    sent.delete(name);
    for (const one of values) sent.append(name, one);
  }
  return new Response(status === 204 || status === 304 ? null : (body as BodyInit), { status, headers: sent });
};
