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

/** Questions of newcomers as they would type them, and a page that answers each: one of the first three results. */
export const QUESTIONS: Readonly<Record<string, string>> = {
  "nginx redis user": "guide/quick-start",
  "login attempts": "guide/protect-a-login-form",
  "redis down": "guide/when-redis-is-down",
  "test without sleeping": "guide/test-rate-limits",
  "everyone gets 429": "troubleshooting",
  "memory or redis": "stores/memory-or-redis",
  "how large burst": "faq",
  "who is rate limited": "guide/find-out-who-is-rate-limited",
  "limit by API key": "middleware/identity",
  prometheus: "guide/monitor-with-prometheus-and-grafana",
};
