/**
 * Every page of the site, in the order of the sidebar. Title and description come from the page itself. Add a page here when it is
 * written: test/site.test.ts fails for a page that is not listed, and for an entry without a page.
 */

/** @typedef {string | readonly [path: string, short: string]} Entry A page, with a shorter text for the sidebar if it needs one */
/** @typedef {{ text?: string, pages: readonly Entry[] }} Group */
/** @typedef {{ text: string, collapsed?: boolean, groups: readonly Group[] }} Section */

/** @type {readonly Section[]} */
export const sections = [
  {
    text: "Start",
    groups: [
      {
        pages: [
          ["guide/index.md", "All pages"],
          ["guide/installation.md", "Installation"],
          ["guide/quick-start.md", "Quick start"],
          ["guide/first-limit.md", "Your first rate limit"],
          ["guide/choose-a-policy.md", "Choose a limit"],
          ["stores/choose-a-store.md", "Choose a store"],
          ["stores/memory-or-redis.md", "Memory or Redis"],
          ["guide/production-checklist.md", "Production checklist"],
        ],
      },
    ],
  },
  {
    text: "Guides",
    groups: [
      {
        text: "Basics",
        pages: [
          ["guide/read-a-decision.md", "Read a decision"],
          ["guide/combine-limits.md", "Several limits at once"],
          ["guide/cost-and-refunds.md", "Cost, refund and peek"],
          ["guide/http-responses.md", "429 and RateLimit headers"],
          ["guide/read-the-headers.md", "Headers for API clients"],
          ["guide/translate-429.md", "Translate the 429"],
          ["middleware/behind-a-proxy.md", "Behind a proxy"],
          ["middleware/identity.md", "By user, API key or IP"],
          ["guide/test-rate-limits.md", "Test without sleeping"],
        ],
      },
      {
        text: "Rules and plans",
        pages: [
          "guide/limit-requests-per-plan.md",
          ["guide/limit-many-endpoints.md", "Many endpoints, one file"],
          ["guide/plans-and-shared-budgets.md", "Shared budgets per plan"],
          ["guide/per-customer-limits.md", "Override one customer"],
          ["guide/roll-out-a-limit.md", "Roll out with shadow mode"],
          ["guide/reload-rules.md", "Reload rules"],
        ],
      },
      {
        text: "Login and abuse",
        pages: [
          ["guide/protect-a-login-form.md", "Protect a login form"],
          "guide/lock-out-repeat-offenders.md",
          ["guide/slow-down-scrapers.md", "Slow down scrapers"],
          ["guide/challenge-with-turnstile.md", "Challenge with Turnstile"],
          "guide/block-clients.md",
        ],
      },
      {
        text: "AI and concurrency",
        pages: [
          "guide/limit-ai-tokens.md",
          "guide/limit-concurrent-requests.md",
          ["guide/idempotency-key.md", "Safe retries: Idempotency-Key"],
        ],
      },
      {
        text: "Operations",
        pages: [
          ["guide/when-redis-is-down.md", "When Redis is down"],
          ["guide/cdn-and-nginx-limits.md", "CDN and nginx limits"],
          ["guide/providers.md", "Cloudflare, Vercel, Netlify"],
          ["guide/choose-limits-from-traffic.md", "Limits from your traffic"],
          ["guide/find-out-who-is-rate-limited.md", "Who is rate limited"],
          ["guide/monitor-with-prometheus-and-grafana.md", "Prometheus and Grafana"],
          ["guide/trace-decisions-with-opentelemetry.md", "OpenTelemetry"],
          ["guide/alerting.md", "Alerts"],
        ],
      },
    ],
  },
  {
    text: "Frameworks",
    collapsed: true,
    groups: [
      {
        pages: [
          ["middleware/index.md", "All options"],
          ["middleware/express.md", "Express"],
          ["middleware/fastify.md", "Fastify"],
          ["middleware/hono.md", "Hono"],
          ["middleware/nestjs.md", "NestJS"],
          ["middleware/next.md", "Next.js"],
          ["middleware/koa.md", "Koa"],
          ["middleware/h3.md", "h3, Nitro and Nuxt"],
          ["middleware/sveltekit.md", "SvelteKit"],
          ["middleware/react-router.md", "React Router and Remix"],
          ["middleware/trpc.md", "tRPC"],
          ["middleware/netlify.md", "Netlify"],
          ["middleware/node.md", "node:http"],
          ["middleware/fetch.md", "Workers, Bun and Deno"],
        ],
      },
    ],
  },
  {
    text: "WebSockets",
    collapsed: true,
    groups: [
      {
        pages: [
          ["websockets/index.md", "Messages and options"],
          ["websockets/limits.md", "Per user, room and plan"],
          ["websockets/ws.md", "ws"],
          ["websockets/socket-io.md", "Socket.IO"],
          ["websockets/bun.md", "Bun"],
          ["websockets/deno.md", "Deno"],
          ["websockets/durable-objects.md", "Durable Objects"],
          ["websockets/ws-kit.md", "ws-kit"],
        ],
      },
    ],
  },
  {
    text: "Stores",
    collapsed: true,
    groups: [
      {
        pages: [
          ["stores/index.md", "Compare the stores"],
          ["stores/memory.md", "Memory"],
          ["stores/redis.md", "Redis"],
          ["stores/upstash.md", "Upstash"],
          ["stores/cloudflare.md", "Cloudflare"],
          ["stores/durable-objects.md", "Durable Objects"],
          ["stores/kv.md", "Workers KV"],
        ],
      },
    ],
  },
  {
    text: "Algorithms",
    collapsed: true,
    groups: [
      {
        pages: [
          ["algorithms/index.md", "Compare the algorithms"],
          "algorithms/token-bucket.md",
          "algorithms/leaky-bucket.md",
          "algorithms/fixed-window.md",
          "algorithms/sliding-window.md",
          "algorithms/sliding-log.md",
          ["algorithms/concurrency.md", "Concurrency"],
          "algorithms/penalty.md",
        ],
      },
    ],
  },
  {
    text: "Migrating",
    collapsed: true,
    groups: [
      {
        pages: [
          ["migrating/from-express-rate-limit.md", "From express-rate-limit"],
          ["migrating/from-fastify-rate-limit.md", "From @fastify/rate-limit"],
          ["migrating/from-nestjs-throttler.md", "From @nestjs/throttler"],
          ["migrating/from-hono-rate-limiter.md", "From hono-rate-limiter"],
          ["migrating/from-rate-limiter-flexible.md", "From rate-limiter-flexible"],
          ["migrating/from-upstash-ratelimit.md", "From @upstash/ratelimit"],
          ["migrating/from-your-own-map.md", "From your own Map"],
          ["migrating/from-your-own-script.md", "From your own script or object"],
          ["migrating/from-your-own-socket-map.md", "From a Map of sockets"],
        ],
      },
    ],
  },
  {
    text: "Reference",
    collapsed: true,
    groups: [
      {
        pages: [
          ["reference/index.md", "API"],
          ["rules.md", "Rules format"],
          ["rules-presets.md", "Rule presets"],
          ["abuse.md", "Abuse options"],
          ["observe.md", "Metrics, events and logs"],
          ["errors.md", "Errors and warnings"],
          "glossary.md",
        ],
      },
    ],
  },
  {
    text: "Help",
    collapsed: true,
    groups: [
      {
        pages: [
          "faq.md",
          ["troubleshooting.md", "Troubleshooting"],
          ["comparison.md", "Compare with other libraries"],
          "threat-model.md",
          ["versioning.md", "Versions and upgrading"],
          ["decisions/index.md", "Internals: decision records"],
        ],
      },
    ],
  },
];

/** The paths of all pages, in the order of the sidebar. */
export const listedPages = sections.flatMap(({ groups }) => groups.flatMap(({ pages }) => pages.map(pathOf)));

/** @param {Entry} entry */
export function pathOf(entry) {
  return typeof entry === "string" ? entry : entry[0];
}
