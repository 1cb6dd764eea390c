/** Small apps with one limiter. */
import type { RequestListener } from "node:http";
import express from "express";
import { type ExpressRateLimitOptions, rateLimit as limitExpress } from "sluice/express";
import { rateLimit as limitNode, type NodeRateLimitOptions } from "sluice/node";
import type { RouteOptions } from "sluice/testing";

export const apps: Readonly<Record<string, (options: RouteOptions) => RequestListener>> = {
  "Express 5": (options) =>
    express()
      .use(limitExpress(options as ExpressRateLimitOptions))
      .use((_request, response) => void response.send("ok")) as RequestListener,
  "node:http": (options) =>
    limitNode(options as NodeRateLimitOptions)((_request, response) => void response.end("ok")) as RequestListener,
};
