/** Routes for operators: who is blocked, block, unblock. */
import { timingSafeEqual } from "node:crypto";
import express from "express";

/** Creates the routes. Every request needs `Authorization: Bearer <token>`. */
export function operatorRoutes(/** @type {import("sluice/abuse").Abuse} */ prevention, /** @type {string} */ token) {
  const expected = Buffer.from(`Bearer ${token}`);
  const routes = express.Router();
  routes.use(express.json(), (request, response, next) => {
    const received = Buffer.from(request.get("Authorization") ?? "");
    const isOperator = received.length === expected.length && timingSafeEqual(received, expected);
    if (isOperator) next();
    else response.sendStatus(401);
  });
  routes.get("/blocks/:key", async (request, response) => {
    const block = await prevention.status(request.params.key);
    response.json({ blocked: block !== undefined, ...block });
  });
  routes.put("/blocks/:key", async (request, response) => {
    await prevention.block(request.params.key, request.body?.duration ?? "1h");
    response.sendStatus(204);
  });
  routes.delete("/blocks/:key", async (request, response) => {
    response.sendStatus((await prevention.unblock(request.params.key)) ? 204 : 404);
  });
  return routes;
}
