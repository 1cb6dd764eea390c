/** Recognises packets of the Socket.IO protocol, version 5, that reach no event handler. */

/** The type of a packet is its first character. */
const CONNECT = "0";
const ACK = "3";
const BINARY_ACK = "6";

/** Whether a packet joins a namespace. */
export function isConnectPacket(packet: string): boolean {
  return packet.startsWith(CONNECT);
}

/** Whether a packet acknowledges an event. */
export function isAckPacket(packet: string): boolean {
  return packet.startsWith(ACK) || packet.startsWith(BINARY_ACK);
}

/** Reads the namespace and the id of an acknowledgement. Without a valid id, the id is `NaN`. */
export function parseAckPacket(packet: string): { namespace: string; id: number } {
  // Type, number of binary attachments and a dash, namespace and a comma, id.
  const [, namespace = "/", digits] = /^.(?:\d+-)?(?:(\/[^,]*),)?(\d+)/.exec(packet) ?? [];
  return { namespace, id: Number(digits) };
}
