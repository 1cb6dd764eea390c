/** Reads the type of JSON frames. */
import { type Frame, INVALID } from "./ingress.ts";

/**
 * Creates a `typeOf` for JSON frames whose type is a string member. Default member: `"type"`. Parses the whole frame: a
 * partial scan could find another type than the one the handler sees after `JSON.parse`.
 */
export function jsonType(member = "type"): (frame: Frame) => string {
  return (frame) => {
    const value: unknown = typeof frame === "string" ? JSON.parse(frame) : undefined;
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, member)) return INVALID;
    const type = (value as Record<string, unknown>)[member];
    return typeof type === "string" ? type : INVALID;
  };
}
