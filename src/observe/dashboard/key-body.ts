/** Reads the key that was typed. It is in the body, because addresses are logged and kept in histories. */

const MAX_BODY_BYTES = 4096;
const MAX_KEY_CHARS = 512;

/** Reads `{ "key": "..." }`; the status of the response if there is none. */
export async function keyIn(request: Request): Promise<{ readonly text: string } | number> {
  if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? "")) return 400;
  const body = await limitedText(request);
  if (body === undefined) return 413;
  try {
    const { key } = JSON.parse(body) as { key?: unknown };
    const text = typeof key === "string" ? key.trim() : "";
    return text !== "" && text.length <= MAX_KEY_CHARS ? { text } : 400;
  } catch {
    return 400;
  }
}

/** The body as text; `undefined` if it is too large. */
async function limitedText({ body }: Request): Promise<string | undefined> {
  const decoder = new TextDecoder();
  const reader = body?.getReader();
  let [text, bytes] = ["", 0];
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.byteLength;
    if (bytes > MAX_BODY_BYTES) {
      reader.cancel().catch(() => {});
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}
