/** Registers the metrics of an observer with prom-client. They are read when they are scraped. */
import { optionError, SluiceError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import { OBSERVER } from "../core/observer.ts";
import type { Metric, MetricSample } from "./metric.ts";
import type { Observer } from "./observer.ts";

/** The methods of a prom-client registry that are called. */
export interface RegistryLike {
  /** Adds a metric. */
  registerMetric(metric: never): void;
  /** Returns the metric with this name, if there is one. */
  getSingleMetric(name: string): unknown;
}

/** Options of `prometheusMetrics`. */
export interface PrometheusOptions {
  /** The registry, such as `register` of prom-client. */
  register: RegistryLike;
  /** The start of every metric's name. Default: `"sluice_"`. */
  prefix?: string;
}

/** Registers the metrics with a prom-client registry. Nothing is counted twice, and nothing happens before a scrape. */
export function prometheusMetrics(observer: Observer, options: PrometheusOptions): void {
  if (!(typeof observer === "object" && observer !== null && OBSERVER in observer)) {
    throw optionError("invalid-option", "observer", "made by createObserver() of sluice/observe", observer);
  }
  checkOptions("prometheusMetrics", options, ["register", "prefix"]);
  const { register, prefix = "sluice_" } = options;
  if (typeof register?.registerMetric !== "function" || typeof register.getSingleMetric !== "function") {
    throw optionError("invalid-option", "register", "a registry of prom-client", register);
  }
  if (typeof prefix !== "string" || !/^[A-Za-z_:][\w:]*$/.test(prefix)) {
    throw optionError("invalid-option", "prefix", 'the start of a metric name, such as "sluice_"', prefix);
  }
  let scraped: ReadonlyMap<string, Metric> | undefined;
  // A registry reads all metrics in one turn of the event loop.
  const read = (name: string): Metric => {
    if (!scraped) {
      scraped = new Map(observer.metrics().map((metric) => [metric.name, metric]));
      queueMicrotask(() => (scraped = undefined));
    }
    return scraped.get(name) as Metric;
  };
  const metrics = observer.metrics().map((metric) => new RegisteredMetric(metric, prefix, read));
  const taken = metrics.find(({ name }) => register.getSingleMetric(name) !== undefined);
  if (taken) {
    const message = `prometheusMetrics: "${taken.name}" is already registered; set a different prefix.`;
    throw new SluiceError("invalid-option", message, {
      option: "prefix",
      expected: "another prefix",
      received: prefix,
    });
  }
  for (const metric of metrics) register.registerMetric(metric as never);
}

interface PrometheusValue {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}

/** A metric as prom-client reads it. */
class RegisteredMetric {
  /** Not readonly: in the OpenMetrics format, the registry removes `_total` and adds it to every sample. */
  name: string;
  readonly help: string;
  readonly type: Metric["type"];
  /** How prom-client joins the metrics of several workers. */
  readonly aggregator: string;
  private readonly ownName: string;
  private readonly read: (name: string) => Metric;

  constructor({ name, help, type }: Metric, prefix: string, read: (name: string) => Metric) {
    this.name = `${prefix}${name}`;
    this.help = help;
    this.type = type;
    // The store is down if one worker can't reach it. Of rates, the largest is the one to alert on.
    this.aggregator = MIN_GAUGES.includes(name) ? "min" : MAX_GAUGES.includes(name) ? "max" : "sum";
    this.ownName = name;
    this.read = read;
  }

  get(): object {
    const { name, help, type, aggregator } = this;
    const { samples, bounds = [] } = this.read(this.ownName);
    const values = samples.flatMap((sample) =>
      type === "histogram" ? histogramValues(name, sample, bounds) : [{ value: sample.value, labels: sample.labels }],
    );
    return { name, help, type, values, aggregator };
  }

  /** Counters belong to the observer. A registry that is reset does not reset them. */
  reset(): void {}
}

const MIN_GAUGES = ["store_up"];
const MAX_GAUGES = ["top_key_denied_per_second", "rules_info"];

function histogramValues(
  name: string,
  { labels, value, buckets = [], sum = 0 }: MetricSample,
  bounds: readonly number[],
): PrometheusValue[] {
  return [
    ...bounds.map((le, i) => ({
      value: buckets[i] as number,
      labels: { le, ...labels },
      metricName: `${name}_bucket`,
    })),
    { value, labels: { le: "+Inf", ...labels }, metricName: `${name}_bucket` },
    { value: sum, labels, metricName: `${name}_sum` },
    { value, labels, metricName: `${name}_count` },
  ];
}
