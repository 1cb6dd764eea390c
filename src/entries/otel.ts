/** `sluice/otel`: the metrics and decisions of an observer for OpenTelemetry. */
export { type OtelMetricsOptions, type OtelSpansOptions, otelMetrics, otelSpans } from "../observe/otel.ts";
