/** Frames as clients send them, good and hostile, each with what is known of it by construction. */

/** The types that the guards know, and the one that is a heartbeat. */
export const TYPES = ["chat", "move", "list"];
export const BEAT = "beat";
/** Names that an object has from its prototype. */
const INHERITED = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"];
/** Characters of one to four bytes. */
const CHARACTERS = ["a", "é", "€", "😀"];
const HALVES = ["\ud800", "\udc00", "\udfff", "a\ud83d", "\ude00b"];
const BROKEN_UTF8 = [[0xc3], [0xff, 0xfe], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98], [0xc0, 0xaf], [0x80, 0x80]];

/**
 * Makes frames for a limit of so many bytes.
 * @param {ReturnType<import("./random.js").randomFrom>} random
 */
export function framePool(random, /** @type {number} */ maxBytes, /** @type {number} */ ofEachKind) {
  const { whole, pick } = random;
  const text = (/** @type {unknown} */ value) => JSON.stringify(value);
  const good = (type = pick(TYPES)) => text({ type, id: whole(0, 9), payload: pick(CHARACTERS).repeat(whole(0, 20)) });
  const bytes = (/** @type {number} */ length) => Uint8Array.from({ length }, () => whole(0, 255));
  const nested = (/** @type {number} */ deep) =>
    pick([
      "[".repeat(deep) + "]".repeat(deep),
      "[".repeat(deep),
      `${'{"type":'.repeat(deep)}1${"}".repeat(deep)}`,
      `{"type":"chat","a":${"[".repeat(deep)}${"]".repeat(deep)}}`,
    ]);
  /** A text of exactly so many bytes. */
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
  /** The same bytes as one of the things that servers hand over. */
  const handed = (/** @type {Uint8Array} */ data) => {
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
    () => good(),
    () => good(),
    () => good(),
    () => good(BEAT),
    () => good(`x${whole(0, 1e6)}`),
    () => good(pick(INHERITED)),
    () =>
      good(pick(["!invalid", "", "chat ", "Chat", "chat\0", "type", "a:b", "%3A", "x".repeat(whole(1, maxBytes / 2))])),
    () => pick(['{"__proto__":{"type":"chat","polluted":1}}', '{"type":"chat","__proto__":{"polluted":1}}']),
    () => pick(['{"constructor":{"prototype":{"polluted":1}},"type":"chat"}', '{"type":"chat","type":"nope"}']),
    () => nested(whole(1, maxBytes / 16)),
    () => good().slice(0, whole(0, 12)),
    () => pick(["", " ", "\0", "\ufeff{}", "null", "1", '"chat"', "[]", "{}", "NaN", "chat", '{"type":"\\ud800"}']),
    () => text({ type: pick([1, null, ["chat"], { chat: 1 }, true]) }),
    () => pick(HALVES).repeat(whole(1, 20)),
    () => text({ type: "chat", a: "" }).replace('""', `"${pick(HALVES)}"`),
    () => exactly(maxBytes),
    () => exactly(maxBytes + 1),
    () =>
      pick(HALVES)
        .slice(0, 1)
        .repeat(Math.floor(maxBytes / 3) + whole(0, 1)),
    () => handed(new Uint8Array(0)),
    () => new ArrayBuffer(0),
    () => handed(bytes(whole(1, 64))),
    () => handed(Uint8Array.from([...Buffer.from('{"type":"chat","a":"'), ...pick(BROKEN_UTF8), 34, 125])),
    () => handed(Buffer.from(good())),
    () => handed(new Uint8Array(maxBytes)),
    () => handed(new Uint8Array(maxBytes + 1)),
  ];
  return kinds.flatMap((kind) => Array.from({ length: ofEachKind }, () => entryOf(kind())));
}

/** A frame with its bytes and what a slow reading finds its type to be. */
export function entryOf(/** @type {any} */ frame) {
  return { frame, bytes: bytesOf(frame), type: jsonTypeOf(frame) };
}

function bytesOf(/** @type {any} */ frame) {
  if (typeof frame === "string") return Buffer.byteLength(frame);
  return frame.byteLength;
}

/** The last member of this name that the text itself has, if it is a text; `undefined` for whatever else there is. */
function jsonTypeOf(/** @type {any} */ frame) {
  if (typeof frame !== "string") return undefined;
  try {
    const found = new Map(Object.entries(JSON.parse(frame) ?? 0)).get("type");
    return typeof found === "string" ? found : undefined;
  } catch {
    return undefined;
  }
}
