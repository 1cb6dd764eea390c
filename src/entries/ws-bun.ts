/** `sluice/ws-bun`: the WebSocket guard for Bun.serve. */
export {
  type BunFrame,
  type BunGuard,
  type BunHandlers,
  type BunServer,
  type BunSocket,
  type BunUpgradeOptions,
  guardBun,
} from "../ws/servers/bun.ts";
