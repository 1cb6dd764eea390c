import type { AddressInfo } from "node:net";
import express from "express";
import { memoryRateLimiter, type RateLimiter, SluiceError } from "sluice";
import { getRateLimit, rateLimit } from "sluice/express";

const limiter: RateLimiter = memoryRateLimiter("3/m");
const app = express();
app.use(rateLimit({ limiter }));
app.get("/", (request, response) => {
  const remaining: number | undefined = getRateLimit(request)?.remaining;
  response.json({ remaining });
});
limiter.consume("key", -1).catch((error: unknown) => {
  if (!(error instanceof SluiceError) || error.code !== "invalid-cost") throw error;
});
const server = app.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
