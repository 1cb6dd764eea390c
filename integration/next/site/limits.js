/** The limit of both apps, and the paths that it has decided about. */
export const decided = [];

export const options = {
  policy: "100/m",
  // The proxy in front of the app sets X-Real-IP.
  identity: { preset: "nginx", trustedProxies: 1 },
  onDecision: ({ args: [request], key }) => void decided.push([request.nextUrl.pathname, key]),
};

/** Responds to the request for what was decided. */
export function report(request) {
  return request.nextUrl.pathname === "/decided" ? Response.json(decided) : undefined;
}
