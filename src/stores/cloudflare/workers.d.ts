/** What is imported of the platform itself. Its own types are not needed to build the package. */
declare module "cloudflare:workers" {
  export const DurableObject: new (ctx: never, env: never) => object;
}
