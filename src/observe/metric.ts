/** Metrics as data, for bridges to Prometheus, OpenTelemetry and others. */

/** One metric. */
export interface Metric {
  /** Its name in Prometheus without a prefix: `requests_total`. */
  readonly name: string;
  /** What kind of metric it is. */
  readonly type: "counter" | "gauge" | "histogram";
  /** What it counts, in one sentence. */
  readonly help: string;
  /** Its unit in OpenTelemetry: `{request}`, `s`. */
  readonly unit: string;
  /** The names of its labels. */
  readonly labelNames: readonly string[];
  /** Upper bounds of the buckets of a histogram, without infinity. Absent on others. */
  readonly bounds?: readonly number[];
  /** The current values, one per combination of labels that has occurred. */
  readonly samples: readonly MetricSample[];
}

/** The value of a metric for one combination of labels. */
export interface MetricSample {
  /** The labels by name. */
  readonly labels: Readonly<Record<string, string>>;
  /** The current value; of a histogram, how many values were recorded. */
  readonly value: number;
  /** Of a histogram: how many recorded values are at most each bound, in the order of `bounds`. */
  readonly buckets?: readonly number[];
  /** Of a histogram: the sum of the recorded values. */
  readonly sum?: number;
}
