/** A Worker that only exports the class of the Durable Objects; tests use its binding from Node.js. */
export { RateLimiterDO } from "../../../dist/cloudflare.js";
export default { fetch: () => new Response() };
