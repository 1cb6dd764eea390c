/**
 * The types of frameworks that middleware use, with the members that they need. The packages themselves are installed
 * in integration/, and in applications: declarations of sluice import the real ones.
 */

declare module "koa" {
  import type { IncomingMessage, ServerResponse } from "node:http";

  export interface Context {
    readonly req: IncomingMessage;
    readonly res: ServerResponse;
    status: number;
    body: unknown;
    readonly headerSent: boolean;
    readonly response: { get(field: string): string };
    respond?: boolean | undefined;
    set(field: string, value: string | string[]): void;
    append(field: string, value: string | string[]): void;
    remove(field: string): void;
  }
  export type Next = () => Promise<unknown>;
  export type Middleware = (context: Context, next: Next) => unknown;
}

declare module "@sveltejs/kit" {
  export interface RequestEvent {
    readonly request: Request;
    readonly url: URL;
    readonly platform: unknown;
    getClientAddress(): string;
  }
}

declare module "react-router" {
  export interface RouterContextProvider {
    get(context: unknown): unknown;
  }
  export interface DataFunctionArgs<Context> {
    readonly request: Request;
    readonly params: Readonly<Record<string, string | undefined>>;
    readonly context: Context;
  }
  export type MiddlewareFunction<Result = unknown> = (
    args: DataFunctionArgs<Readonly<RouterContextProvider>>,
    next: () => Promise<Result>,
  ) => Promise<Result> | Result;
}

declare module "@netlify/edge-functions" {
  export interface Context {
    readonly ip: string;
    next(): Promise<Response>;
  }
}

declare module "h3" {
  export interface H3Event {
    readonly req: Request & { readonly ip?: string | undefined };
    readonly res: { status?: number; readonly headers: Headers };
  }
  export type Middleware = (event: H3Event, next: () => unknown) => unknown;
  export function toResponse(value: unknown, event: H3Event): Response | Promise<Response>;
}
