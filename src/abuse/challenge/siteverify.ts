/** Sends one verification request to a provider's `siteverify` endpoint and reads its reply. */
import { type ErrorDetails, SluiceError } from "../../base/errors.ts";

/** Where and how long to ask. */
export interface Siteverify {
  /** The provider's name, for messages. */
  readonly name: string;
  readonly url: string;
  readonly timeoutMs: number;
}

/** A provider's reply. Fields that it doesn't report are `undefined`. */
export interface SiteverifyReply {
  readonly success: boolean;
  readonly codes: readonly string[];
  readonly hostname: string | undefined;
  readonly action: string | undefined;
  /** When the challenge was solved or loaded, in milliseconds since the epoch; `NaN` if unknown. */
  readonly solvedAt: number;
  readonly score: number | undefined;
  /** Whether the secret is one of Turnstile's testing keys, which accept or refuse every token. */
  readonly isTest: boolean;
}

/** Replies of the providers have about 300 bytes. */
const MAX_REPLY_BYTES = 16_384;

/**
 * Codes about our request, not about the token: nobody can pass until that is fixed. `sitekey-secret-mismatch` is not one
 * of them, because a token of another site key causes it.
 */
const OUR_FAULT: readonly string[] = ["missing-input-secret", "invalid-input-secret", "bad-request"];

/** Codes are written to messages and responses, so only text of this form is: no secret looks like it. */
const CODE = /^[a-z]+(?:-[a-z]+)*$/;
const MAX_CODES = 8;
const MAX_CODE_CHARS = 64;

/** Sends one POST. Rejects with a `SluiceError` if the provider does not verify the token. No error contains a field. */
export async function siteverify(to: Siteverify, fields: Readonly<Record<string, string>>): Promise<SiteverifyReply> {
  const reply = parseReply(await send(to, new URLSearchParams(fields).toString()));
  if (!reply) throw unavailable(to, "sent a reply that is not a verification result");
  if (reply.codes.includes("internal-error")) throw unavailable(to, "reported an internal error");
  const ours = reply.codes.find((code) => OUR_FAULT.includes(code));
  if (ours) throw unavailable(to, `refused the request (${ours}); check the secret that it is configured with`);
  return reply;
}

async function send(to: Siteverify, body: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(to.timeoutMs);
  try {
    const response = await fetch(to.url, {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded", Accept: "application/json" },
      body,
      // A redirect would send the secret to another host. Workers don't support "error".
      redirect: "manual",
      signal,
    });
    // Turnstile reports some errors with status 400 and a reply.
    if (response.ok || response.status === 400) return await readText(response);
    await response.body?.cancel();
    throw unavailable(to, `responded with status ${response.status}`);
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    if (signal.aborted) throw unavailable(to, `did not respond within ${to.timeoutMs} ms`);
    throw unavailable(to, "could not be reached", { cause });
  }
}

/** The body as text; `undefined` if it is too long. */
async function readText(response: Response): Promise<string | undefined> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) return text + decoder.decode();
    bytes += value.length;
    if (bytes > MAX_REPLY_BYTES) {
      await reader?.cancel();
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The reply in this text; `undefined` if it is not one. */
function parseReply(text: string | undefined): SiteverifyReply | undefined {
  const data = parseObject(text);
  if (typeof data?.success !== "boolean") return undefined;
  const { hostname, action, score, metadata } = data;
  return {
    success: data.success,
    codes: codesOf(data["error-codes"]),
    hostname: typeof hostname === "string" ? hostname.toLowerCase() : undefined,
    action: typeof action === "string" ? action : undefined,
    solvedAt: Date.parse(String(data.challenge_ts)),
    score: typeof score === "number" ? score : undefined,
    isTest: (metadata as { result_with_testing_key?: unknown } | undefined)?.result_with_testing_key === true,
  };
}

function parseObject(text: string | undefined): Record<string, unknown> | undefined {
  try {
    const data = JSON.parse(text ?? "");
    return typeof data === "object" && data !== null ? data : undefined;
  } catch {
    // Without the cause: its message quotes the reply.
    return undefined;
  }
}

function codesOf(codes: unknown): string[] {
  const isCode = (code: unknown): code is string =>
    typeof code === "string" && code.length <= MAX_CODE_CHARS && CODE.test(code);
  return Array.isArray(codes) ? codes.filter(isCode).slice(0, MAX_CODES) : [];
}

function unavailable({ name }: Siteverify, what: string, details?: ErrorDetails): SluiceError {
  const message = `The challenge provider "${name}" ${what}. Nobody can pass a challenge until it verifies tokens.`;
  return new SluiceError("provider-unavailable", message, { option: "provider", ...details });
}
