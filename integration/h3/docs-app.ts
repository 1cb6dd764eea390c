/** The app of docs/middleware/h3.md. */
import { H3, serve } from "h3";
import { slidingLog, tokenBucket } from "sluice";
import { getRateLimit, rateLimit } from "sluice/h3";

const app = new H3();

// All clients, per IP address. A health check must always respond.
app.use(
  rateLimit({
    policy: tokenBucket("5/h", { name: "api" }),
    skip: ({ url }) => url.pathname === "/health",
  }),
);

app.get("/health", () => "ok\n");
app.get("/", (event) => ({ remaining: getRateLimit(event)?.remaining }));

// A stricter limit for one route.
app.post(
  "/codes",
  (event) => {
    event.res.status = 202;
    return { sent: true };
  },
  { middleware: [rateLimit({ policy: slidingLog("1/15m", { name: "codes" }) })] },
);

serve(app);
