/** `sluice/ws-bun`: the WebSocket guard for Bun.serve. */
export {
  type BunFrame,
  type BunGuard,
  type BunHandlers,
  type BunServer,
  type BunSocket,
  guardBun,
} from "../ws/servers/bun.ts";
