/** Buckets per handler, as @nestjs/throttler has them, of docs/migrating/from-nestjs-throttler.md. */
import { RateLimitModule } from "sluice/nestjs";

export const limits = RateLimitModule.forRoot({
  policy: "10/m",
  key: (request, _response, context) =>
    `${context.getClass().name}.${context.getHandler().name}:${request.socket.remoteAddress}`,
});
