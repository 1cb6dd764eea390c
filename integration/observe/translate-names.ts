/** How Prometheus names metrics and labels that it receives through OpenTelemetry, with the default translation. */

import {
  DataPointType,
  type InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";

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

/** The names of all series and labels that are exported while `work` runs, in Prometheus. */
export async function collectNames(
  exporter: InMemoryMetricExporter,
  work: (provider: MeterProvider) => Promise<void>,
): Promise<{ metrics: Set<string>; labels: Set<string> }> {
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  await work(provider);
  await provider.forceFlush();
  const collected = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
  const metrics = collected.flatMap(({ descriptor, dataPointType, dataPoints, ...others }) => {
    const isCounter = dataPointType === DataPointType.SUM && "isMonotonic" in others && others.isMonotonic;
    const name = translateMetric({ ...descriptor, isCounter });
    if (dataPoints.length === 0) return [];
    const isHistogram = dataPointType === DataPointType.HISTOGRAM;
    return isHistogram ? ["bucket", "sum", "count"].map((suffix) => `${name}_${suffix}`) : [name];
  });
  const labels = collected.flatMap(({ dataPoints }) =>
    dataPoints.flatMap(({ attributes }) => Object.keys(attributes).map(translateLabel)),
  );
  await provider.shutdown();
  return { metrics: new Set(metrics), labels: new Set(labels) };
}
