/** Computes which of the 16 384 slots of a Redis Cluster a key belongs to: CRC-16 (XMODEM) of its hash tag. */

const encoder = new TextEncoder();
let table: Uint16Array | undefined;

/** Returns the slot of a hash tag, the part of a stored key between the braces. */
export function hashSlot(tag: string): number {
  table ??= makeTable();
  let crc = 0;
  for (const byte of encoder.encode(tag)) crc = ((crc << 8) & 0xffff) ^ (table[(crc >> 8) ^ byte] as number);
  return crc % 16_384;
}

function makeTable(): Uint16Array {
  return Uint16Array.from({ length: 256 }, (_, byte) => {
    let crc = byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    return crc;
  });
}
