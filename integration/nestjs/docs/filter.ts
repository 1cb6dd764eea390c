/** The exception filter of docs/middleware/nestjs.md. */
import { type ArgumentsHost, Catch, type ExceptionFilter } from "@nestjs/common";
import { RateLimitException } from "sluice/nestjs";

@Catch(RateLimitException)
export class RateLimitFilter implements ExceptionFilter<RateLimitException> {
  catch(exception: RateLimitException, host: ArgumentsHost) {
    const response = host.switchToHttp().getResponse();
    const seconds = Math.ceil((exception.decision?.retryAfterMs ?? 1000) / 1000);
    response.status(exception.getStatus()).send({ error: "slow down", seconds });
  }
}
