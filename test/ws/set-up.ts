/** A connection whose other end a test has in its hands, with a clock that stands still until it is moved. */
import { memoryRateLimiter, type RateLimiter } from "sluice";
import { fakeClock } from "sluice/testing";
import { createGuard, type Frame, type GuardOptions, type Ingress, type LimitExceeded } from "sluice/ws";

export interface Data {
  userId?: string;
  tenantId?: string;
  plan?: string;
}

/** The time of all that is here. */
export const clock = fakeClock();

/** A connection whose other end writes down what it gets. */
export function setUp(options: GuardOptions<Data> = {}, data: Data = {}) {
  const hooks: LimitExceeded[] = [];
  const errors: unknown[] = [];
  const invalid: Ingress<Data>[] = [];
  const guard = createGuard<Data>({
    clock,
    onLimitExceeded: (info) => hooks.push(info),
    onInvalid: (ingress) => invalid.push(ingress),
    onError: (error) => errors.push(error),
    ...options,
  });
  const told: string[] = [];
  const closes: [number, string][] = [];
  const handled: Frame[] = [];
  const peer = {
    id: "c1",
    ip: "192.0.2.7",
    data,
    send: (message: string | Uint8Array) => void told.push(String(message)),
    close: (code: number, reason: string) => void closes.push([code, reason]),
  };
  const connection = guard.attach(peer);
  const receive = (...frames: Frame[]) => {
    for (const frame of frames) connection.receive(frame, (frame) => void handled.push(frame));
  };
  const notices = () => told.map((text) => JSON.parse(text).payload);
  return { guard, peer, connection, receive, handled, hooks, errors, invalid, told, notices, closes };
}

export const perHour = (capacity: number) => ({ capacity, tokensPerSecond: "1/h" }) as const;
export const few = (capacity: number) => memoryRateLimiter(perHour(capacity), { clock });
export const say = (type: string, more: object = {}) => JSON.stringify({ type, ...more });

/** A limiter that is asked now and answers when it is told to. */
export function remote(capacity: number) {
  const inner = few(capacity);
  const asked: { key: string; answer(): Promise<void>; fail(error: Error): Promise<void> }[] = [];
  const limiter = {
    consume(key: string, cost: number) {
      const decision = inner.consumeSync(key, cost);
      return new Promise((resolve, reject) => {
        const settle = async (how: () => void) => {
          how();
          // One turn for the answer, one for what is done with it.
          for (let turn = 0; turn < 5; turn++) await Promise.resolve();
        };
        asked.push({
          key,
          answer: () => settle(() => resolve(decision)),
          fail: (error) => settle(() => reject(error)),
        });
      });
    },
    getPolicy: () => inner.getPolicy(),
  } as unknown as RateLimiter;
  return { limiter, asked };
}
