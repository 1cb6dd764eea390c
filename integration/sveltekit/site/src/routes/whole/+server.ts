/** Calls another route of the app, which runs the hooks again. */
import type { RequestHandler } from "@sveltejs/kit";

export const GET: RequestHandler = async ({ fetch }) => new Response(await (await fetch("/part")).text());
