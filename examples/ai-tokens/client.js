/** A client of the endpoint. */

/**
 * Sends a prompt, reads the stream and returns the status. `disconnectAfter`: disconnects after that many words.
 * @param {string} url
 * @param {string} user
 * @param {string} prompt
 * @param {number} [disconnectAfter]
 */
export async function chat(url, user, prompt, disconnectAfter = Number.POSITIVE_INFINITY) {
  const headers = { "X-User": user, "Content-Type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ prompt }) });
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    // Leaving the loop cancels the body, which closes the connection.
    if (text.split(" ").length > disconnectAfter) break;
  }
  return response.status;
}
