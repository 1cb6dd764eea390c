/** Reads the server-sent events of a model's response. */

/**
 * @typedef {{ prompt_tokens: number, completion_tokens: number, total_tokens: number }} Usage
 * @typedef {{ id: string, choices: { delta: { content: string } }[], usage: Usage | null }} ModelEvent
 */

/**
 * Yields the events until `[DONE]`.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ModelEvent>}
 */
export async function* readEvents(body) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) {
      const data = event.slice("data: ".length);
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
