/** `sluice/ws-durable-object`: the WebSocket guard for Durable Objects with hibernation. */
export {
  type DurableContext,
  type DurableFrame,
  type DurableObjectGuard,
  type DurableSocket,
  type DurableUpgradeOptions,
  guardDurableObject,
} from "../ws/servers/durable-object.ts";
