/**
 * The types of frameworks that middleware use, with the members that they need. The packages themselves are installed
 * in integration/, and in applications: declarations of sluice import the real ones.
 */

declare module "koa" {
  import type { IncomingMessage, ServerResponse } from "node:http";

  export interface Context {
    readonly req: IncomingMessage;
    readonly res: ServerResponse;
    readonly originalUrl: string;
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
    readonly isDataRequest: boolean;
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
  export interface H3Config {
    readonly onResponse?: unknown;
  }
  export interface H3Event {
    readonly app?: { readonly config: H3Config };
    readonly req: Request & { readonly ip?: string | undefined };
    readonly res: { status?: number; readonly headers: Headers };
    readonly runtime?: { readonly node?: { readonly res?: unknown } } | undefined;
  }
  export type Middleware = (event: H3Event, next: () => unknown) => unknown;
  export function toResponse(value: unknown, event: H3Event, config?: H3Config): Response | Promise<Response>;
}

declare module "@nestjs/common" {
  // biome-ignore lint/suspicious/noExplicitAny: a class of the application
  export type Type<T = any> = new (...args: any[]) => T;
  export interface ExecutionContext {
    // biome-ignore lint/suspicious/noExplicitAny: as in Nest
    getClass<T = any>(): Type<T>;
    // biome-ignore lint/complexity/noBannedTypes: as in Nest
    getHandler(): Function;
    getType<T extends string = string>(): T;
    // biome-ignore lint/suspicious/noExplicitAny: as in Nest
    getArgs<T extends any[] = any[]>(): T;
    // biome-ignore lint/suspicious/noExplicitAny: as in Nest
    switchToHttp(): { getRequest<T = any>(): T; getResponse<T = any>(): T };
  }
  export interface CanActivate {
    canActivate(context: ExecutionContext): boolean | Promise<boolean>;
  }
  export interface OnModuleInit {
    onModuleInit(): void;
  }
  export type CustomDecorator<K = string> = MethodDecorator & ClassDecorator & { KEY: K };
  export interface FactoryProvider<T = unknown> {
    provide: Type | string | symbol;
    // biome-ignore lint/suspicious/noExplicitAny: the injected providers
    useFactory: (...args: any[]) => T | Promise<T>;
    inject?: (Type | string | symbol)[];
  }
  type Provider = Type | FactoryProvider | { provide: string | symbol; useValue: unknown };
  export interface ModuleMetadata {
    imports?: (Type | DynamicModule | Promise<DynamicModule>)[];
    providers?: Provider[];
    exports?: Type[];
  }
  export interface DynamicModule extends ModuleMetadata {
    module: Type;
    global?: boolean;
  }
  export class HttpException extends Error {
    constructor(response: string | Record<string, unknown>, status: number);
    getStatus(): number;
    getResponse(): string | object;
  }
  export function Injectable(): ClassDecorator;
  export function Module(metadata: ModuleMetadata): ClassDecorator;
  export function Inject(token: Type): (target: object, key: string | undefined, index: number) => void;
  export function SetMetadata<K = string, V = unknown>(key: K, value: V): CustomDecorator<K>;
}

declare module "@nestjs/core" {
  interface ModuleOfNest {
    readonly controllers: ReadonlyMap<unknown, { readonly metatype: unknown }>;
    readonly providers: ReadonlyMap<unknown, { readonly metatype: unknown }>;
  }
  export class ModulesContainer extends Map<string, ModuleOfNest> {}
  export class Reflector {
    // biome-ignore lint/complexity/noBannedTypes: as in Nest
    get<T>(key: string, target: Function): T;
    // biome-ignore lint/complexity/noBannedTypes: as in Nest
    getAllAndOverride<T>(key: string, targets: Function[]): T;
  }
}

declare module "@trpc/server" {
  export type TRPCProcedureType = "query" | "mutation" | "subscription";
  type MiddlewareResult<_Context> = { ok: true; data: unknown } | { ok: false; error: TRPCError };
  export type TRPCMiddlewareFunction<Context, Meta, _ContextIn, ContextOut, Input> = (options: {
    ctx: Context;
    type: TRPCProcedureType;
    path: string;
    input: Input;
    getRawInput: () => Promise<unknown>;
    meta: Meta | undefined;
    signal: AbortSignal | undefined;
    next: <C>(options: { ctx?: C; input?: unknown }) => Promise<MiddlewareResult<C>>;
  }) => Promise<MiddlewareResult<ContextOut>>;
  export class TRPCError extends Error {
    constructor(options: {
      message?: string;
      code:
        | "BAD_REQUEST"
        | "CLIENT_CLOSED_REQUEST"
        | "FORBIDDEN"
        | "TOO_MANY_REQUESTS"
        | "SERVICE_UNAVAILABLE"
        | "INTERNAL_SERVER_ERROR";
      cause?: unknown;
    });
  }
}
