/** Small apps around a middleware, to see what a mistake sends to clients and to the framework's error handler. */
import express, { type NextFunction, type Request, type Response } from "express";
import { Hono } from "hono";
import { listening, sendRequest } from "../frameworks/servers.ts";
import { wrong } from "./row.ts";

/** What came back: the statuses of the responses, and the message of the first error that the framework received. */
export interface Visit {
  readonly statuses: readonly number[];
  readonly error?: string;
}

/** Sends requests to a listener of `node:http`, one after the other. */
export async function visit(listener: unknown, requests = 1, headers: Record<string, string> = {}): Promise<Visit> {
  const url = await listening(wrong(listener));
  const statuses: number[] = [];
  for (let i = 0; i < requests; i++) statuses.push((await sendRequest(url, { headers })).status);
  return { statuses };
}

/** Mounts a middleware in Express, and sends requests. */
export async function visitExpress(
  middleware: unknown,
  requests = 1,
  headers: Record<string, string> = {},
): Promise<Visit> {
  const errors: unknown[] = [];
  const app = express();
  // As left over from express-rate-limit; sluice does not read it.
  app.set("trust proxy", 1);
  app.use(wrong(middleware));
  app.use((_request, response) => void response.send("handled"));
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    errors.push(error);
    response.status(500).send();
  });
  return withError(await visit(app, requests, headers), errors);
}

/** Mounts a middleware in Hono, and sends a request without a socket. */
export async function visitHono(middleware: unknown): Promise<Visit> {
  const errors: unknown[] = [];
  const app = new Hono();
  app.use(wrong(middleware));
  app.get("/", (context) => context.text("handled"));
  app.onError((error, context) => {
    errors.push(error);
    return context.text("", 500);
  });
  return withError({ statuses: [(await app.request("/")).status] }, errors);
}

function withError(visited: Visit, errors: readonly unknown[]): Visit {
  return errors.length === 0 ? visited : { ...visited, error: (errors[0] as Error).message };
}
