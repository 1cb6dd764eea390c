/** How Prometheus names metrics and labels that it receives through OpenTelemetry, with the default translation. */

/** Units that become a part of the name. Annotations in braces do not. */
const UNITS: Readonly<Record<string, string>> = { s: "seconds", ms: "milliseconds", By: "bytes" };

export interface Instrument {
  readonly name: string;
  readonly unit: string;
  readonly isCounter: boolean;
}

/** The name of a metric: dots become underscores, the unit is appended, and counters end in `_total`. */
export function translateMetric({ name, unit, isCounter }: Instrument): string {
  const [amount = "", per] = unit.replace(/\{[^}]*\}/g, "").split("/");
  const parts = [
    translateLabel(name),
    ...(amount === "" ? [] : [UNITS[amount] ?? amount]),
    ...(per === undefined ? [] : [`per_${(UNITS[per] ?? per).replace(/s$/, "")}`]),
    ...(isCounter ? ["total"] : []),
  ];
  return parts.join("_");
}

/** The name of a label. */
export function translateLabel(name: string): string {
  return name.replace(/[^A-Za-z0-9_]/g, "_");
}
