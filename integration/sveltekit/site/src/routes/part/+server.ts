/** Is called by another route. */
export const GET = (): Response => new Response("part");
