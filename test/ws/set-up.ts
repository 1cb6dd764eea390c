/** A guarded connection with a fake peer and a fake clock, for unit tests. */
import { memoryRateLimiter, type RateLimiter } from "sluice";
import { fakeClock } from "sluice/testing";
import { createGuard, type Frame, type GuardOptions, type Ingress, type LimitExceeded } from "sluice/ws";

export interface Data {
  userId?: string;
  tenantId?: string;
  plan?: string;
}

/** The clock of all guards and limiters here. */
export const clock = fakeClock();

/** Attaches a connection to a peer that records its messages and closes. */
export function setUp(options: GuardOptions<Data> = {}, data: Data = {}) {
  const exceeded: LimitExceeded[] = [];
  const errors: unknown[] = [];
  const invalid: Ingress<Data>[] = [];
  const guard = createGuard<Data>({
    clock,
    onLimitExceeded: (info) => exceeded.push(info),
    onInvalid: (ingress) => invalid.push(ingress),
    onError: (error) => errors.push(error),
    ...options,
  });
  const sent: string[] = [];
  const closes: [number, string][] = [];
  const handled: Frame[] = [];
  const peer = {
    id: "c1",
    ip: "192.0.2.7",
    data,
    send: (message: string | Uint8Array) => void sent.push(String(message)),
    close: (code: number, reason: string) => void closes.push([code, reason]),
  };
  const connection = guard.attach(peer);
  const receive = (...frames: Frame[]) => {
    for (const frame of frames) connection.receive(frame, (frame) => void handled.push(frame));
  };
  const notices = () => sent.map((text) => JSON.parse(text).payload);
  return { guard, peer, connection, receive, handled, exceeded, errors, invalid, sent, notices, closes };
}

export const perHour = (capacity: number) => ({ capacity, tokensPerSecond: "1/h" }) as const;
export const few = (capacity: number) => memoryRateLimiter(perHour(capacity), { clock });
export const message = (type: string, more: object = {}) => JSON.stringify({ type, ...more });

/** A limiter that decides now and replies when the test calls `reply`. */
export function remote(capacity: number) {
  const inner = few(capacity);
  const calls: { key: string; reply(): Promise<void>; fail(error: Error): Promise<void> }[] = [];
  const limiter = {
    consume(key: string, cost: number) {
      const decision = inner.consumeSync(key, cost);
      return new Promise((resolve, reject) => {
        const resolveLater = async (resolveOrReject: () => void) => {
          resolveOrReject();
          // Let the promise callbacks of the guard run.
          for (let turn = 0; turn < 5; turn++) await Promise.resolve();
        };
        calls.push({
          key,
          reply: () => resolveLater(() => resolve(decision)),
          fail: (error) => resolveLater(() => reject(error)),
        });
      });
    },
    getPolicy: () => inner.getPolicy(),
  } as unknown as RateLimiter;
  return { limiter, calls };
}
