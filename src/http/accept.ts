/** Content negotiation between JSON and plain text (RFC 9110, 12.5.1). */

const JSON_TYPES = ["application/problem+json", "application/json", "application/*", "*/*"];
const TEXT_TYPES = ["text/plain", "text/*", "*/*"];

/** Longer headers are ignored: parsing one per request would make a flood expensive. */
const MAX_CHARS = 1024;

/** Whether an `Accept` header prefers plain text to JSON. JSON wins a tie. */
export function prefersText(accept: string | undefined): boolean {
  if (!accept || accept.length > MAX_CHARS) return false;
  const weights = new Map(accept.split(",").map(parseRange));
  return weightOf(TEXT_TYPES, weights) > weightOf(JSON_TYPES, weights);
}

/** The weight of the most specific range that matches one of the types. */
function weightOf(types: readonly string[], weights: ReadonlyMap<string, number>): number {
  const match = types.find((type) => weights.has(type));
  return match === undefined ? 0 : (weights.get(match) as number);
}

function parseRange(range: string): [type: string, weight: number] {
  const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith("q="));
  const value = weight === undefined ? 1 : Number(weight.slice(2));
  return [type, value >= 0 && value <= 1 ? value : 0];
}
