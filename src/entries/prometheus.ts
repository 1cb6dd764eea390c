/** `sluice/prometheus`: the metrics of an observer for prom-client. */
export { type PrometheusOptions, prometheusMetrics, type RegistryLike } from "../observe/prometheus.ts";
