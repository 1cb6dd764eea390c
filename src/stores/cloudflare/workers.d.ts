/** What is imported of the platform itself. Its own types are not needed to build the package. */
declare module "cloudflare:workers" {
  export class DurableObject<Env = unknown> {
    protected readonly env: Env;
    constructor(ctx: unknown, env: Env);
  }
}
