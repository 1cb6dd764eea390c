/** `idempotent` behind `rateLimit` charges retries: a warning says so. A flood limit in front of both is no mistake. */
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import * as onExpress from "sluice/express";
import * as onFastify from "sluice/fastify";
import * as onHono from "sluice/hono";
import { memoryIdempotencyStore } from "sluice/idempotency";
import * as onNode from "sluice/node";
import { describe, expect, onTestFinished, test } from "vitest";
import { collectWarnings, listening, served } from "../frameworks/servers.ts";

/** The middleware in front of the handler, in order. */
type Order = readonly ("limit" | "once")[];

const limit = { policy: "100/m" } as const;
const once = () => ({ store: memoryIdempotencyStore(), scope: () => "ada" });

const starts: Record<string, (order: Order, status: number) => Promise<string>> = {
  async express(order, status) {
    const app = express();
    app.use(express.json());
    for (const one of order) app.use(one === "limit" ? onExpress.rateLimit(limit) : onExpress.idempotent(once()));
    app.post("/", (_request, response) => void response.status(status).send("ok"));
    return listening(app);
  },
  async fastify(order, status) {
    const app = fastify();
    for (const one of order) {
      app.addHook("preHandler", one === "limit" ? onFastify.rateLimit(limit) : onFastify.idempotent(once()));
    }
    app.post("/", (_request, reply) => reply.code(status).send("ok"));
    onTestFinished(() => app.close());
    return app.listen({ port: 0 });
  },
  async hono(order, status) {
    const app = new Hono();
    for (const one of order) app.use(one === "limit" ? onHono.rateLimit(limit) : onHono.idempotent(once()));
    app.post("/", (context) => context.text("ok", status as 200));
    return served(app.fetch as never);
  },
  async node(order, status) {
    let handler: Parameters<ReturnType<typeof onNode.rateLimit>>[0] = (_request, response) =>
      void response.writeHead(status).end("ok");
    for (const one of order.toReversed()) {
      handler = (one === "limit" ? onNode.rateLimit(limit) : onNode.idempotent(once()))(handler);
    }
    return listening(handler);
  },
};

async function pay(url: string, key: string): Promise<number> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const response = await fetch(url, { method: "POST", headers, body: "{}" });
  await response.text();
  return response.status;
}

describe.each(Object.entries(starts))("on %s", (_, start) => {
  test("idempotent after rateLimit is a warning, once", async () => {
    const warnings = collectWarnings();
    const url = await start(["limit", "once"], 201);
    for (const key of ["a", "a", "b", "c"]) expect(await pay(url, key)).toBe(201);
    await expect.poll(() => warnings.length).toBe(1);
    expect(warnings[0]?.code).toBe("SLUICE_MISUSE");
    expect(warnings[0]?.text).toContain("idempotent runs after rateLimit, so retries are charged");
  });

  test.each<[string, Order, number]>([
    ["before it", ["once", "limit"], 201],
    ["between two limiters", ["limit", "once", "limit"], 201],
    ["alone", ["once"], 400],
  ])("idempotent %s is not", async (_, order, status) => {
    const warnings = collectWarnings();
    const url = await start(order, status);
    for (const key of ["a", "a", "b"]) expect(await pay(url, key)).toBe(status);
    expect(warnings).toEqual([]);
  });
});
