/** Opens the gate of `idempotent` for frameworks that pass a `Request`, whatever else they pass with it. */
import type { Gate } from "../gate/gate.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import { type FetchArgsReader, fetchReader } from "../hosts/fetch-gate.ts";
import { openIdempotency } from "./gate.ts";
import type { IdempotencyOptions } from "./options.ts";
import { clonedPayload } from "./payload.ts";

/** Validates the options, and creates the gate. */
export function openFetchIdempotency<Args extends HandlerArgs>(
  options: IdempotencyOptions<Args>,
  reader: FetchArgsReader<Args>,
): Gate<Args> {
  return openIdempotency(options, {
    ...fetchReader(reader),
    payload: (args, maxBytes) => clonedPayload(reader.request(args), maxBytes),
    signal: (args) => reader.request(args).signal,
  });
}
