/** A module, a guard and decorators for NestJS 11 and 12, on Express and Fastify, for controllers and GraphQL resolvers. */
import {
  type CanActivate,
  type CustomDecorator,
  type DynamicModule,
  type ExecutionContext,
  type FactoryProvider,
  Inject,
  Injectable,
  Module,
  type ModuleMetadata,
  type OnModuleInit,
  SetMetadata,
  type Type,
} from "@nestjs/common";
import { ModulesContainer, Reflector } from "@nestjs/core";
import { optionError } from "../base/errors.ts";
import { decisionOf } from "./gate/decisions.ts";
import type { RateLimitOptions, RequestDecision } from "./gate/options.ts";
import { type AppOptions, routeLimits } from "./gate/route-limits.ts";
import { type GuardContext, guardContext, idempotentContext, type NestArgs } from "./hosts/nest-guard.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";

/** The options of a guard. `onLimited` returns the body of the exception, or sends a response itself. */
export type NestRateLimitOptions<F extends string = string> = RateLimitOptions<NestArgs, unknown, F>;

/** The options of `idempotentGuard`. */
export type NestIdempotencyOptions = IdempotencyOptions<NestArgs>;

/** The options of `RateLimitModule`. */
export type RateLimitModuleOptions<F extends string = string> = AppOptions<NestArgs, unknown, F>;

/** A class that creates the options of the module, for `useClass` and `useExisting`. */
export interface RateLimitOptionsFactory {
  /** Returns the options. */
  createRateLimitOptions(): RateLimitModuleOptions | Promise<RateLimitModuleOptions>;
}

/** How `forRootAsync` gets the options. Exactly one of `useFactory`, `useClass` and `useExisting` is required. */
export interface RateLimitModuleAsyncOptions extends Pick<ModuleMetadata, "imports"> {
  /** The providers to pass to `useFactory`. */
  inject?: FactoryProvider["inject"];
  /** Returns the options. */
  // biome-ignore lint/suspicious/noExplicitAny: the providers of `inject`
  useFactory?: (...args: any[]) => RateLimitModuleOptions | Promise<RateLimitModuleOptions>;
  /** A class that creates the options. */
  useClass?: Type<RateLimitOptionsFactory>;
  /** A provider of another module that creates the options. */
  useExisting?: Type<RateLimitOptionsFactory>;
}

/** The provider of the module's options. Tests may override it. */
export const RATE_LIMIT_OPTIONS: unique symbol = Symbol("sluice:rate-limit-options");
/** Metadata of a controller or handler: its own options, or `false` for no limit. */
const ROUTE_OPTIONS = "sluice:rate-limit";

/** The limits of an app by the options of its routes. Every guard of the app uses the same ones. */
class RateLimits implements OnModuleInit {
  readonly find: (route: NestRateLimitOptions | false | undefined) => GuardContext | undefined;
  private readonly modules: ModulesContainer;
  private readonly reflector: Reflector;

  constructor(options: RateLimitModuleOptions, modules: ModulesContainer, reflector: Reflector) {
    this.find = routeLimits(options, guardContext);
    this.modules = modules;
    this.reflector = reflector;
  }

  /** Creates the limits of all routes, so wrong options end the start of the app and not its first request. */
  onModuleInit(): void {
    for (const { controllers, providers } of this.modules.values()) {
      for (const { metatype } of [...controllers.values(), ...providers.values()]) {
        if (typeof metatype !== "function" || !metatype.prototype) continue;
        const members = Object.values(Object.getOwnPropertyDescriptors(metatype.prototype)).map(({ value }) => value);
        for (const target of [metatype, ...members]) {
          if (typeof target === "function") this.find(this.reflector.get(ROUTE_OPTIONS, target));
        }
      }
    }
  }
}

/**
 * Limits requests to controllers and GraphQL resolvers. Register it for the whole app with
 * `{ provide: APP_GUARD, useClass: RateLimitGuard }`, or for some with `@UseGuards(RateLimitGuard)`. One request is counted
 * once, however often the guard is bound to its handler.
 */
export class RateLimitGuard implements CanActivate {
  private readonly limits: RateLimits;
  private readonly reflector: Reflector;

  constructor(limits: RateLimits, reflector: Reflector) {
    this.limits = limits;
    this.reflector = reflector;
  }

  /** Resolves if the request may continue. Rejects with a `RateLimitException` if it is denied. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const targets = [context.getHandler(), context.getClass()];
    const route = this.reflector.getAllAndOverride<NestRateLimitOptions | false | undefined>(ROUTE_OPTIONS, targets);
    return this.limits.find(route)?.(context) ?? true;
  }
}
Injectable()(RateLimitGuard);
Inject(RateLimits)(RateLimitGuard, undefined, 0);
Inject(Reflector)(RateLimitGuard, undefined, 1);

/** Provides `RateLimitGuard` and its limits to the whole app. */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class
export class RateLimitModule {
  /** Sets the limits of every handler that has none of its own: `RateLimitModule.forRoot({ policy: "100/m" })`. */
  static forRoot<F extends string = never>(options: RateLimitModuleOptions<F>): DynamicModule {
    return moduleWith([{ provide: RATE_LIMIT_OPTIONS, useValue: options }]);
  }

  /** Like `forRoot`, with options that depend on other providers, such as a Redis client. */
  static forRootAsync(options: RateLimitModuleAsyncOptions): DynamicModule {
    const { imports = [], inject = [], useFactory, useClass, useExisting } = options ?? {};
    const factory = useClass ?? useExisting;
    if ([useFactory, useClass, useExisting].filter(Boolean).length !== 1) {
      throw optionError(
        "invalid-option",
        "forRootAsync",
        "exactly one of useFactory, useClass and useExisting",
        options,
      );
    }
    const provider = useFactory
      ? { provide: RATE_LIMIT_OPTIONS, useFactory, inject }
      : {
          provide: RATE_LIMIT_OPTIONS,
          useFactory: (created: RateLimitOptionsFactory) => created.createRateLimitOptions(),
          inject: [factory as Type<RateLimitOptionsFactory>],
        };
    return moduleWith(useClass ? [useClass, provider] : [provider], imports);
  }
}
Module({})(RateLimitModule);

function moduleWith(
  options: NonNullable<ModuleMetadata["providers"]>,
  imports: NonNullable<ModuleMetadata["imports"]> = [],
): DynamicModule {
  const limits: FactoryProvider = {
    provide: RateLimits,
    useFactory: (options, modules, reflector) => new RateLimits(options, modules, reflector),
    inject: [RATE_LIMIT_OPTIONS, ModulesContainer, Reflector],
  };
  return {
    module: RateLimitModule,
    global: true,
    imports,
    providers: [...options, limits, RateLimitGuard],
    exports: [RateLimits, RateLimitGuard],
  };
}

/**
 * Gives a controller or a handler limits of its own, in place of those of the module: `@RateLimit({ policy: "5/m" })`.
 * What it leaves out, such as `identity`, is taken from the module. The decorator of a handler replaces that of its
 * controller.
 */
export function RateLimit<F extends string = never>(options: NestRateLimitOptions<F>): CustomDecorator<string> {
  return SetMetadata(ROUTE_OPTIONS, options);
}

/** Exempts a controller or a handler from the limits of the module and of its controller. */
export function SkipRateLimit(): CustomDecorator<string> {
  return SetMetadata(ROUTE_OPTIONS, false);
}

/**
 * Creates a guard with limits of its own, which count in addition to those of the module:
 * `@UseGuards(rateLimitGuard({ policy: "5/m" }))`. It needs no module, and ignores `@RateLimit` and `@SkipRateLimit`.
 */
export function rateLimitGuard<F extends string = never>(options: NestRateLimitOptions<F>): CanActivate {
  return { canActivate: guardContext(options as NestRateLimitOptions) };
}

/**
 * Creates a guard that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `@UseGuards(AuthGuard, idempotentGuard({ store, scope }), RateLimitGuard)`. It ignores GraphQL and messages.
 */
export function idempotentGuard(options: NestIdempotencyOptions): CanActivate {
  return { canActivate: idempotentContext(options) };
}

/**
 * Returns the decision of the last guard that the request passed; `undefined` if none has counted it. Pass the request of
 * the handler, `@Req()`, or that of the GraphQL context. In shadow mode the decision may be a denied one.
 */
export function getRateLimit(request: object): RequestDecision | undefined {
  return decisionOf(request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: object): RequestIdempotency | undefined {
  return idempotencyOf(request);
}
