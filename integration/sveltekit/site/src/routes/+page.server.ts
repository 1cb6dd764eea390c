/** Passes what is left to the page. */
import type { ServerLoad } from "@sveltejs/kit";
import { getRateLimit } from "sluice/sveltekit";

export const load: ServerLoad = (event) => ({ remaining: getRateLimit(event)?.remaining });
