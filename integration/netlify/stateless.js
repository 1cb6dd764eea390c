/** Serves the edge function of the docs, with module state that is new with each request, as on Netlify. */
globalThis.Netlify = { env: Deno.env };

let requests = 0;
Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen() {} }, async (request) => {
  const { default: edgeFunction } = await import(`./edge-functions/limit.ts?${requests++}`);
  return edgeFunction(request, { ip: "203.0.113.7", next: async () => new Response("from the origin") });
});
