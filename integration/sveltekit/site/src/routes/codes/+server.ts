/** Stands for a route that sends a code. */
export const POST = (): Response => Response.json({ sent: true }, { status: 202 });
