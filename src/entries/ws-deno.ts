/** `sluice/ws-deno`: the WebSocket guard for Deno.upgradeWebSocket. */
export {
  type DenoFrame,
  type DenoGuard,
  type DenoHandlers,
  type DenoUpgradeOptions,
  guardDeno,
} from "../ws/servers/deno.ts";
