/** The identity of docs/middleware/next.md. */
export const identity = {
  // The reverse proxy in front overwrites X-Real-IP. On Vercel: "vercel", without trustedProxies.
  preset: "nginx",
  trustedProxies: 1,
  // `next dev` has no proxy in front: at localhost, all requests share one bucket.
  unidentified: process.env.NODE_ENV === "development" ? "share" : "refuse",
} as const;
