/** Types of the one import from Cloudflare's runtime, so that the package builds without Cloudflare's own types. */
declare module "cloudflare:workers" {
  export class DurableObject<Env = unknown> {
    protected readonly env: Env;
    constructor(ctx: unknown, env: Env);
  }
}
