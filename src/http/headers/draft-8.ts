/** RateLimit fields as drafts 8 to 11 of draft-ietf-httpapi-ratelimit-headers define them: lists of named policies. */
import type { Decision } from "../../core/decision.ts";
import type { ResolvedPolicy } from "../../core/policy.ts";
import type { FieldStyle, HeaderContext, WriteFields } from "./field-writer.ts";
import { isConcurrency, isPenalty, type Policies, policyList, reportedParts } from "./policies.ts";
import { checkBase64, clampInteger, toSeconds, toSfString } from "./structured-fields.ts";

/** Writes `RateLimit-Policy` and `RateLimit`, with one item per policy. */
export const writeDraft8: WriteFields = (decision, policies, style, context) => {
  const parts = style.closestOnly ? undefined : decision.parts;
  const partitionAt = partitionLookup(style, context);
  // One policy with a rate is the common case.
  if (!parts && !hasSpecialPolicy(policies)) {
    return {
      "RateLimit-Policy": policyField(decision, [decision], policies, style, partitionAt),
      RateLimit: quotaItem(decision, false, partitionAt?.(0)),
    };
  }
  const reported = reportedParts(style.closestOnly ? withoutParts(decision) : decision, policies);
  if (reported.length === 0) return {};
  return {
    "RateLimit-Policy": policyField(decision, parts ?? [decision], policies, style, partitionAt),
    RateLimit: reported
      .map(({ part, policy, index }) => quotaItem(part, isConcurrency(policy), partitionAt?.(index)))
      .join(", "),
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
      .flatMap((policy, i) => (isPenalty(policy) ? [] : [itemOf(policy, unit) + (partitionAt?.(i) ?? "")]))
      .join(", ");
  }
  let byUnit = cachedFields.get(policies);
  if (!byUnit) cachedFields.set(policies, (byUnit = new Map()));
  let field = byUnit.get(unit ?? "");
  if (field === undefined) {
    field = list
      .filter((policy) => !isPenalty(policy))
      .map((policy) => itemOf(policy, unit))
      .join(", ");
    byUnit.set(unit ?? "", field);
  }
  return field;
}

/** Whether a policy is a penalty or a concurrency limit, which are reported in another way than rates. */
function hasSpecialPolicy(policies: Policies | undefined): boolean {
  return policies !== undefined && policyList(policies).some((policy) => isPenalty(policy) || isConcurrency(policy));
}

function withoutParts({ parts: _, ...decision }: Decision): Decision {
  return decision as Decision;
}

function itemOf(policy: ResolvedPolicy, unit: string | undefined): string {
  const { name, limit, windowMs } = policy;
  return isConcurrency(policy)
    ? policyItem(name, limit, undefined, "concurrent-requests")
    : policyItem(name, limit, windowMs, policy.unit ?? unit);
}

function policyItem(name: string, limit: number, windowMs: number | undefined, unit: string | undefined): string {
  const quotaUnit = unit === undefined || unit === "requests" ? "" : `;qu=${toSfString(unit)}`;
  const window = windowMs === undefined ? "" : `;w=${toSeconds(windowMs)}`;
  return `${toSfString(name)};q=${clampInteger(Math.floor(limit))}${quotaUnit}${window}`;
}

function quotaItem({ policy, remaining, nextAfterMs }: Decision, isHeld: boolean, partition = ""): string {
  // When a hold is settled is not known.
  const next = nextAfterMs > 0 && !isHeld ? `;t=${toSeconds(nextAfterMs)}` : "";
  return `${toSfString(policy)};r=${clampInteger(Math.floor(remaining))}${next}${partition}`;
}
