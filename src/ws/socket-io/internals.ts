/**
 * The private members of Socket.IO that the guard depends on, as of socket.io 4.8.4 and engine.io 6.6.11. No public API has
 * the same information. The other files use public API only; check this one when integration/ws upgrades Socket.IO.
 */

/** Returns the namespaces that exist. The public API only looks up, or creates, a namespace by name. */
export function namespacesOf(server: object): Iterable<unknown> {
  return (server as { readonly _nsps: ReadonlyMap<string, unknown> })._nsps.values();
}

/**
 * Moves the middleware that was added last to the front. A child of a dynamic namespace inherits the middleware of its
 * parent before `new_namespace` is emitted, and the public `use` only appends.
 */
export function moveLastMiddlewareToFront(namespace: object): void {
  const { _fns: middleware } = namespace as { readonly _fns?: unknown[] };
  middleware?.unshift(middleware.pop());
}

/** Whether a socket waits for the acknowledgement of an event that it emitted. Socket.IO ignores others without a trace. */
export function awaitsAck(socket: object, id: number): boolean {
  return (socket as { readonly acks?: ReadonlyMap<number, unknown> }).acks?.has(id) ?? false;
}

/** Returns the session id in the query of a request, which engine.io has parsed before it runs middleware. */
export function sessionIdOf(request: object): string {
  return (request as { readonly _query?: { readonly sid?: string } })._query?.sid ?? "";
}
