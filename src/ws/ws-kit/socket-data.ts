/** Makes `ctx.ws.data` the data of the connection on every server. ws-kit has it in `ctx.data`, and only Bun's sockets in both. */

/**
 * Adds the data to a socket that has none. Otherwise a key such as `ctx.ws.data?.userId ?? "anon"` would be the same for
 * all users. ws-kit keeps one data object per connection, so it is added once.
 */
export function addSocketData({ ws, data }: { readonly ws: object; readonly data: unknown }): void {
  if ("data" in ws || !Object.isExtensible(ws)) return;
  Object.defineProperty(ws, "data", { value: data, configurable: true, writable: true });
}
