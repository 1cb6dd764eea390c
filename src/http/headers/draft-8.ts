/** RateLimit fields as drafts 8 to 11 of draft-ietf-httpapi-ratelimit-headers define them: lists of named policies. */
import type { Decision } from "../../core/decision.ts";
import type { FieldStyle, HeaderContext, WriteFields } from "./field-writer.ts";
import { type Policies, policyList } from "./policies.ts";
import { checkBase64, clampInteger, toSeconds, toSfString } from "./structured-fields.ts";

/** Writes `RateLimit-Policy` and `RateLimit`, with one item per policy. */
export const writeDraft8: WriteFields = (decision, policies, style, context) => {
  const parts = style.closestOnly ? undefined : decision.parts;
  const partitionAt = partitionLookup(style, context);
  return {
    "RateLimit-Policy": policyField(decision, parts ?? [decision], policies, style, partitionAt),
    RateLimit: parts
      ? parts.map((part, i) => quotaItem(part, partitionAt?.(i))).join(", ")
      : quotaItem(decision, partitionAt?.(0)),
  };
};

/** Returns the `pk` parameter of an item by its index; `undefined` without a partition key. */
type PartitionLookup = (index: number) => string;

function partitionLookup(style: FieldStyle, { key, keys }: HeaderContext): PartitionLookup | undefined {
  const { partitionKey } = style;
  if (!partitionKey || (key ?? keys) === undefined) return undefined;
  const byKey = new Map<string | undefined, string>([[undefined, ""]]);
  return (index) => {
    const own = style.closestOnly ? key : (keys?.[index] ?? key);
    // An HMAC is expensive: one key is hashed once, however many items it appears in.
    let partition = byKey.get(own);
    if (partition === undefined) {
      partition = `;pk=:${checkBase64(partitionKey(own as string))}:`;
      byKey.set(own, partition);
    }
    return partition;
  };
}

/** `RateLimit-Policy` by policies and unit, since policies don't change. With a partition key it belongs to one client. */
const cachedFields = new WeakMap<Policies, Map<string, string>>();

function policyField(
  decision: Decision,
  parts: readonly Decision[],
  policies: Policies | undefined,
  { closestOnly, unit }: FieldStyle,
  partitionAt: PartitionLookup | undefined,
): string {
  if (!policies) {
    // A third-party limiter may not report its policies, so their windows are unknown.
    return parts
      .map((part, i) => policyItem(part.policy, part.limit, undefined, unit) + (partitionAt?.(i) ?? ""))
      .join(", ");
  }
  const list = policyList(policies);
  if (partitionAt || (closestOnly && list.length > 1)) {
    const limiting = list.find(({ name }) => name === decision.policy);
    const reported = closestOnly ? (limiting ? [limiting] : []) : list;
    return reported
      .map(({ name, limit, windowMs }, i) => policyItem(name, limit, windowMs, unit) + (partitionAt?.(i) ?? ""))
      .join(", ");
  }
  let byUnit = cachedFields.get(policies);
  if (!byUnit) cachedFields.set(policies, (byUnit = new Map()));
  let field = byUnit.get(unit ?? "");
  if (field === undefined) {
    field = list.map(({ name, limit, windowMs }) => policyItem(name, limit, windowMs, unit)).join(", ");
    byUnit.set(unit ?? "", field);
  }
  return field;
}

function policyItem(name: string, limit: number, windowMs: number | undefined, unit: string | undefined): string {
  const quotaUnit = unit === undefined || unit === "requests" ? "" : `;qu=${toSfString(unit)}`;
  const window = windowMs === undefined ? "" : `;w=${toSeconds(windowMs)}`;
  return `${toSfString(name)};q=${clampInteger(Math.floor(limit))}${quotaUnit}${window}`;
}

function quotaItem({ policy, remaining, nextAfterMs }: Decision, partition = ""): string {
  const next = nextAfterMs > 0 ? `;t=${toSeconds(nextAfterMs)}` : "";
  return `${toSfString(policy)};r=${clampInteger(Math.floor(remaining))}${next}${partition}`;
}
