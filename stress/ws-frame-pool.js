/** Valid and hostile frames, each with its size and its type, computed independently of the guard. */

/** The known types, and the type of heartbeats. */
export const TYPES = ["chat", "move", "list"];
export const HEARTBEAT_TYPE = "beat";
/** Property names that objects inherit. */
const INHERITED = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"];
/** Characters of one to four bytes. */
const CHARACTERS = ["a", "é", "€", "😀"];
const LONE_SURROGATES = ["\ud800", "\udc00", "\udfff", "a\ud83d", "\ude00b"];
const BROKEN_UTF8 = [[0xc3], [0xff, 0xfe], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98], [0xc0, 0xaf], [0x80, 0x80]];

/**
 * Creates frames around a limit of `maxBytes`.
 * @param {ReturnType<import("./random.js").randomFrom>} random
 */
export function framePool(random, /** @type {number} */ maxBytes, /** @type {number} */ perKind) {
  const { whole, pick } = random;
  const text = (/** @type {unknown} */ value) => JSON.stringify(value);
  const valid = (type = pick(TYPES)) => text({ type, id: whole(0, 9), payload: pick(CHARACTERS).repeat(whole(0, 20)) });
  const bytes = (/** @type {number} */ length) => Uint8Array.from({ length }, () => whole(0, 255));
  const nested = (/** @type {number} */ deep) =>
    pick([
      "[".repeat(deep) + "]".repeat(deep),
      "[".repeat(deep),
      `${'{"type":'.repeat(deep)}1${"}".repeat(deep)}`,
      `{"type":"chat","a":${"[".repeat(deep)}${"]".repeat(deep)}}`,
    ]);
  /** Text of exactly `size` bytes. */
  const exactly = (/** @type {number} */ size) => {
    const [head, tail] = pick([
      ['{"type":"chat","a":"', '"}'],
      ["", ""],
    ]);
    const character = pick(CHARACTERS);
    const room = size - head.length - tail.length;
    const width = Buffer.byteLength(character);
    return head + "x".repeat(room % width) + character.repeat(Math.floor(room / width)) + tail;
  };
  /** The same bytes in one of the types that servers pass on. */
  const asBinary = (/** @type {Uint8Array} */ data) => {
    const padded = new Uint8Array(data.length + 8);
    padded.set(data, 4);
    const view = padded.subarray(4, 4 + data.length);
    return pick([
      () => data,
      () => data.slice().buffer,
      () => view,
      () => new DataView(padded.buffer, 4, data.length),
      () => Buffer.from(data),
    ])();
  };
  const kinds = [
    () => valid(),
    () => valid(),
    () => valid(),
    () => valid(HEARTBEAT_TYPE),
    () => valid(`x${whole(0, 1e6)}`),
    () => valid(pick(INHERITED)),
    () =>
      valid(
        pick(["!invalid", "", "chat ", "Chat", "chat\0", "type", "a:b", "%3A", "x".repeat(whole(1, maxBytes / 2))]),
      ),
    () => pick(['{"__proto__":{"type":"chat","polluted":1}}', '{"type":"chat","__proto__":{"polluted":1}}']),
    () => pick(['{"constructor":{"prototype":{"polluted":1}},"type":"chat"}', '{"type":"chat","type":"nope"}']),
    () => nested(whole(1, maxBytes / 16)),
    () => valid().slice(0, whole(0, 12)),
    () => pick(["", " ", "\0", "\ufeff{}", "null", "1", '"chat"', "[]", "{}", "NaN", "chat", '{"type":"\\ud800"}']),
    () => text({ type: pick([1, null, ["chat"], { chat: 1 }, true]) }),
    () => pick(LONE_SURROGATES).repeat(whole(1, 20)),
    () => text({ type: "chat", a: "" }).replace('""', `"${pick(LONE_SURROGATES)}"`),
    () => exactly(maxBytes),
    () => exactly(maxBytes + 1),
    () =>
      pick(LONE_SURROGATES)
        .slice(0, 1)
        .repeat(Math.floor(maxBytes / 3) + whole(0, 1)),
    () => asBinary(new Uint8Array(0)),
    () => new ArrayBuffer(0),
    () => asBinary(bytes(whole(1, 64))),
    () => asBinary(Uint8Array.from([...Buffer.from('{"type":"chat","a":"'), ...pick(BROKEN_UTF8), 34, 125])),
    () => asBinary(Buffer.from(valid())),
    () => asBinary(new Uint8Array(maxBytes)),
    () => asBinary(new Uint8Array(maxBytes + 1)),
  ];
  return kinds.flatMap((kind) => Array.from({ length: perKind }, () => entryOf(kind())));
}

/** A frame with its size in bytes and its type. */
export function entryOf(/** @type {any} */ frame) {
  return { frame, bytes: bytesOf(frame), type: jsonTypeOf(frame) };
}

function bytesOf(/** @type {any} */ frame) {
  if (typeof frame === "string") return Buffer.byteLength(frame);
  return frame.byteLength;
}

/** The own member `type` of a JSON text, if it is a string. */
function jsonTypeOf(/** @type {any} */ frame) {
  if (typeof frame !== "string") return undefined;
  try {
    const found = new Map(Object.entries(JSON.parse(frame) ?? 0)).get("type");
    return typeof found === "string" ? found : undefined;
  } catch {
    return undefined;
  }
}
