/** Writes the RateLimit fields of one middleware's responses. */
import type { Decision } from "../../core/decision.ts";
import type { HeaderFields } from "../../http/headers/field-writer.ts";
import { type HeaderOptions, headerWriter, type WriteHeaders } from "../../http/headers/rate-limit-headers.ts";
import type { RequestCharges } from "../../http/request-charges.ts";
import type { RateLimitOptions } from "./options.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";

export class GateHeaders<Args extends HandlerArgs> {
  /** The unit of the cost, for problem documents. */
  readonly unit: string | undefined;
  private readonly write: WriteHeaders | undefined;
  private readonly hasPartitionKey: boolean;
  private readonly reports: Reports<Args>;
  /** Warnings of the header writer, which has no request to report them with. */
  private readonly warnings: string[] = [];

  constructor({ headers }: RateLimitOptions<Args, unknown>, reports: Reports<Args>) {
    this.reports = reports;
    const options = (typeof headers === "string" || Array.isArray(headers) ? { mode: headers } : headers) as
      | HeaderOptions
      | false
      | undefined;
    const warn = (message: string): void => void this.warnings.push(message);
    this.write = options === false ? undefined : headerWriter(options, warn);
    this.unit = options ? options.unit : undefined;
    this.hasPartitionKey = options !== false && options?.partitionKey !== undefined;
  }

  /** The fields of a response; `undefined` if there are none. */
  fieldsFor(args: Args, charges: RequestCharges, decision: Decision): HeaderFields | undefined {
    const fields = this.write?.(decision, charges.policies, this.contextFor(charges, decision));
    if (this.warnings.length > 0) {
      for (const message of this.warnings.splice(0)) this.reports.warn(message, args);
    }
    return fields && !isEmpty(fields) ? fields : undefined;
  }

  /** The keys of the charges, if a partition key is made from them. */
  private contextFor(
    charges: RequestCharges,
    decision: Decision,
  ): { key: string; keys?: readonly string[] } | undefined {
    if (!this.hasPartitionKey) return undefined;
    const key = charges.keyOf(decision);
    const keys = charges.keysByPolicy();
    return keys ? { key, keys } : { key };
  }
}

function isEmpty(fields: HeaderFields): boolean {
  for (const _ in fields) return false;
  return true;
}
