/** Exports the metrics of an observer through OpenTelemetry, and adds its decisions to spans. */
import {
  type Attributes,
  type MeterProvider,
  metrics as metricsApi,
  type Observable,
  SpanKind,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { optionError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import { VERSION } from "../base/version.ts";
import { OBSERVER } from "../core/observer.ts";
import type { DecisionEvent } from "./events.ts";
import type { Metric } from "./metric.ts";
import type { Observer, ObserverState } from "./observer.ts";

/** Options of `otelMetrics`. */
export interface OtelMetricsOptions {
  /** Where instruments are created. Default: the global provider. */
  meterProvider?: MeterProvider;
}

/** Options of `otelSpans`. */
export interface OtelSpansOptions {
  /** Where spans are created. Default: the global provider. */
  tracerProvider?: TracerProvider;
  /** Whether each decision of a remote store is a span of its own. Default: false. */
  spans?: boolean;
}

/** Names in OpenTelemetry. Translated to Prometheus, they are those of `sluice/prometheus`. */
const NAMES: Readonly<Record<string, string>> = {
  requests_total: "sluice.requests",
  decisions_total: "sluice.decisions",
  cost_total: "sluice.cost",
  decision_duration_seconds: "sluice.decision.duration",
  store_up: "sluice.store.up",
  store_errors_total: "sluice.store.errors",
  degraded_decisions_total: "sluice.degraded_decisions",
  memory_keys: "sluice.memory.keys",
  memory_evictions_total: "sluice.memory.evictions",
  top_key_denied_per_second: "sluice.top_key.denied",
  blocks_total: "sluice.blocks",
  challenges_total: "sluice.challenges",
  idempotency_total: "sluice.idempotency",
  rules_info: "sluice.rules.info",
  rules_reloads_total: "sluice.rules.reloads",
};

/** Exports the metrics through OpenTelemetry. Counters are read when they are collected. */
export function otelMetrics(observer: Observer, options: OtelMetricsOptions = {}): void {
  const state = stateOf(observer);
  checkOptions("otelMetrics", options, ["meterProvider"]);
  const { meterProvider } = options;
  if (meterProvider !== undefined && typeof meterProvider?.getMeter !== "function") {
    throw optionError("invalid-option", "meterProvider", "a meter provider of OpenTelemetry", meterProvider);
  }
  const meter = (meterProvider ?? metricsApi).getMeter("sluice", VERSION);
  const instruments = new Map<string, Observable>();
  for (const { name, type, help, unit, bounds } of observer.metrics()) {
    const otelName = NAMES[name] as string;
    const described = { description: help, unit };
    if (type === "histogram") {
      // OpenTelemetry has no histogram that is read when it is collected.
      const advice = { explicitBucketBoundaries: [...(bounds ?? [])] };
      const histogram = meter.createHistogram(otelName, { ...described, advice });
      state.onDuration((store, seconds) => histogram.record(seconds, { "sluice.store": store }));
    } else if (type === "counter") instruments.set(name, meter.createObservableCounter(otelName, described));
    else instruments.set(name, meter.createObservableGauge(otelName, described));
  }
  meter.addBatchObservableCallback(
    (result) => {
      for (const { name, samples } of observer.metrics()) {
        const instrument = instruments.get(name);
        if (!instrument) continue;
        for (const { labels, value } of samples) result.observe(instrument, value, attributesOf(labels));
      }
    },
    [...instruments.values()],
  );
}

/** Adds the attributes of decisions to the active span; with `spans`, also creates a span for each remote decision. */
export function otelSpans(observer: Observer, options: OtelSpansOptions = {}): void {
  stateOf(observer);
  checkOptions("otelSpans", options, ["tracerProvider", "spans"]);
  const { tracerProvider, spans = false } = options;
  if (tracerProvider !== undefined && typeof tracerProvider?.getTracer !== "function") {
    throw optionError("invalid-option", "tracerProvider", "a tracer provider of OpenTelemetry", tracerProvider);
  }
  if (typeof spans !== "boolean") throw optionError("invalid-option", "spans", "true or false", spans);
  const tracer = (tracerProvider ?? trace).getTracer("sluice", VERSION);
  observer.on((event) => {
    if (event.type !== "decision") return;
    const active = trace.getActiveSpan();
    // The tag is an HMAC, which is not worth computing for a span that is not sampled.
    if (active?.isRecording()) active.setAttributes(spanAttributes(event));
    const { durationMs } = event;
    if (!spans || durationMs === undefined) return;
    const span = tracer.startSpan("sluice consume", { kind: SpanKind.INTERNAL, startTime: event.time - durationMs });
    if (span.isRecording()) span.setAttributes(spanAttributes(event));
    span.end(event.time);
  });
}

function spanAttributes(event: DecisionEvent): Attributes {
  const { rule, policy, outcome, source, remaining, retryAfterMs } = event;
  return {
    ...attributesOf({ rule, policy, outcome, source }),
    "sluice.remaining": remaining,
    // A cost that never fits has no wait.
    ...(typeof retryAfterMs === "number" && { "sluice.retry_after_ms": retryAfterMs }),
    "sluice.key_tag": event.tag(),
  };
}

function attributesOf(labels: Metric["samples"][number]["labels"]): Attributes {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [`sluice.${name}`, value]));
}

function stateOf(observer: Observer): ObserverState {
  if (typeof observer === "object" && observer !== null && OBSERVER in observer) {
    return observer[OBSERVER] as unknown as ObserverState;
  }
  throw optionError("invalid-option", "observer", "made by createObserver() of sluice/observe", observer);
}
