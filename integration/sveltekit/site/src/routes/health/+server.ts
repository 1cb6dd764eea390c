/** The health check. */
export const GET = (): Response => new Response("ok\n");
