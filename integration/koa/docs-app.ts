/** The app of docs/middleware/koa.md. */
import Koa from "koa";
import { slidingLog, tokenBucket } from "sluice";
import { getRateLimit, rateLimit } from "sluice/koa";

const app = new Koa();

// A health check must always respond.
app.use((context, next) => {
  if (context.path !== "/health") return next();
  context.body = "ok\n";
});

// All clients, per IP address, before anything expensive.
app.use(rateLimit({ policy: tokenBucket("5/h", { name: "api" }) }));

// A stricter limit for one path.
const limitCodes = rateLimit({ policy: slidingLog("1/15m", { name: "codes" }) });
app.use((context, next) => (context.path === "/codes" ? limitCodes(context, next) : next()));

app.use((context) => {
  context.status = context.path === "/codes" ? 202 : 200;
  context.body = { remaining: getRateLimit(context)?.remaining };
});

app.listen(Number(process.env.PORT ?? 3000));
