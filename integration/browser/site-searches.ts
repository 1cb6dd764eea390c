/** What readers search for, and the page that has to come first. */
export const SEARCHES: Readonly<Record<string, string>> = {
  "brute force": "guide/protect-a-login-form",
  proxy: "middleware/behind-a-proxy",
  "Retry-After": "guide/http-responses",
  "fail open": "guide/when-redis-is-down",
  "per plan": "guide/limit-requests-per-plan",
  WebSocket: "websockets/",
  "Durable Object": "stores/durable-objects",
};
