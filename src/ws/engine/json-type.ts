/** What a frame of JSON says that it is. */
import { type Frame, INVALID } from "./ingress.ts";

/**
 * A `typeOf` for frames of JSON that have their type in a member. The whole frame is parsed: a shorter look could be
 * shown one type while the handler sees another.
 */
export function jsonType(member = "type"): (frame: Frame) => string {
  return (frame) => {
    const value: unknown = typeof frame === "string" ? JSON.parse(frame) : undefined;
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, member)) return INVALID;
    const type = (value as Record<string, unknown>)[member];
    return typeof type === "string" ? type : INVALID;
  };
}
