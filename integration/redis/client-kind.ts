/** A kind of client that the suites run on. */
import type { Policy, RateLimiter } from "sluice";
import type { RedisRateLimiterOptions, RedisStore, RedisStoreOptions } from "sluice/redis";

/** A client that is connecting. */
export interface OpenedClient<Client> {
  readonly client: Client;
  /** Resolves when commands can be sent. */
  readonly ready: Promise<unknown>;
  close(): unknown;
}

/** How to open clients, and to create stores and limiters on them. */
export interface ClientKind<Client extends object> {
  open(): OpenedClient<Client>;
  createStore(client: Client, options?: RedisStoreOptions): RedisStore;
  createLimiter(client: Client, policy: Policy, options?: RedisRateLimiterOptions): RateLimiter;
}

/** Opens a client and waits until it is ready. `onClose` is called with a function that closes it. */
export async function openClient<Client extends object>(
  { open }: Pick<ClientKind<Client>, "open">,
  onClose: (close: () => Promise<void>) => void,
): Promise<Client> {
  const { client, ready, close } = open();
  onClose(async () => void (await close()));
  await ready;
  return client;
}
