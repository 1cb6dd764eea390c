/** The route of the Nitro app. */
import { defineHandler } from "nitro/h3";
import { getRateLimit } from "sluice/h3";

export default defineHandler((event) => ({ remaining: getRateLimit(event)?.remaining }));
