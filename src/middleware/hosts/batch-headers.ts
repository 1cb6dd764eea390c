/** Adds header fields to the response of several calls: procedures of one batch, or fields of one GraphQL query. */
import type { PendingHeaders } from "../../http/response.ts";

/** The pending fields of one gate by response. A response gets those of its last call, in place of a list of all. */
export class BatchHeaders {
  private readonly pending = new WeakMap<object, { -readonly [name in keyof PendingHeaders]: PendingHeaders[name] }>();

  /** Returns the fields to add when the response is sent; `undefined` if earlier ones, which are updated, will be. */
  add(response: object, headers: PendingHeaders): PendingHeaders | undefined {
    const found = this.pending.get(response);
    if (found) {
      Object.assign(found, headers);
      return undefined;
    }
    const added = { ...headers };
    this.pending.set(response, added);
    return added;
  }
}
