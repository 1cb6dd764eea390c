/** Which of two forms of a body a client would rather have (RFC 9110, 12.5.1). */

const JSON_TYPES = ["application/problem+json", "application/json", "application/*", "*/*"];
const TEXT_TYPES = ["text/plain", "text/*", "*/*"];

/** A longer list is not worth the work: a flood could bring one with every request. */
const MAX_LENGTH = 1024;

/** Whether plain text is wanted more than JSON. When in doubt it is JSON. */
export function prefersText(accept: string | undefined): boolean {
  if (!accept || accept.length > MAX_LENGTH) return false;
  const weights = new Map(accept.split(",").map(weightOf));
  return best(TEXT_TYPES, weights) > best(JSON_TYPES, weights);
}

/** The weight of the most exact range that names one of the types. */
function best(types: readonly string[], weights: ReadonlyMap<string, number>): number {
  const named = types.find((type) => weights.has(type));
  return named === undefined ? 0 : (weights.get(named) as number);
}

function weightOf(range: string): [string, number] {
  const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith("q="));
  const value = weight === undefined ? 1 : Number(weight.slice(2));
  return [type, value >= 0 && value <= 1 ? value : 0];
}
