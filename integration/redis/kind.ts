/** A kind of client, as the suites are run on it. */
import type { Policy, RateLimiter } from "sluice";
import type { RedisRateLimiterOptions, RedisStore, RedisStoreOptions } from "sluice/redis";

/** A client on its way to its servers. */
export interface Opened<Client> {
  readonly client: Client;
  /** Settles when commands can be sent. */
  readonly ready: Promise<unknown>;
  close(): unknown;
}

/** How clients are opened, and what sluice makes of one. */
export interface Kind<Client extends object> {
  open(): Opened<Client>;
  storeOn(client: Client, options?: RedisStoreOptions): RedisStore;
  limiterOn(client: Client, policy: Policy, options?: RedisRateLimiterOptions): RateLimiter;
}

/** A new connection, which `later` closes. */
export async function connected<Client extends object>(
  { open }: Pick<Kind<Client>, "open">,
  later: (close: () => Promise<void>) => void,
): Promise<Client> {
  const { client, ready, close } = open();
  later(async () => void (await close()));
  await ready;
  return client;
}
