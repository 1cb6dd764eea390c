/** Types of the one import from Cloudflare's runtime. The package builds without Cloudflare's own types. */
declare module "cloudflare:workers" {
  export class DurableObject<Env = unknown> {
    protected readonly env: Env;
    constructor(ctx: unknown, env: Env);
  }
}
