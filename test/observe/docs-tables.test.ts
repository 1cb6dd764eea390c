/** The tables of docs/observe.md and of the guide to OpenTelemetry against the code. */
import { readFileSync } from "node:fs";
import { createObserver } from "sluice/observe";
import { expect, it } from "vitest";
import { OUTCOMES } from "../../src/observe/outcomes.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = read("docs/observe.md");
const section = (heading: string) => page.split(`\n## ${heading}\n`)[1]?.split("\n## ")[0] ?? "";
const rowsOf = (text: string) => [...text.matchAll(/^\| (`.*) \|$/gm)].map(([, row = ""]) => row.split(" | "));
const namesIn = (cell = "") => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string);

it("lists every metric with its type and labels", () => {
  const listed = rowsOf(section("Metrics")).map(([name, type, labels]) => [namesIn(name)[0], type, namesIn(labels)]);
  const metrics = createObserver().metrics();
  expect(listed).toEqual(metrics.map(({ name, type, labelNames }) => [`sluice_${name}`, type, [...labelNames]]));
});

it("lists every metric with its unit in the guide to OpenTelemetry", () => {
  const guide = read("docs/guide/trace-decisions-with-opentelemetry.md").split("\n## Metric names\n")[1] ?? "";
  const listed = rowsOf(guide).map(([, unit, name]) => [namesIn(name)[0], namesIn(unit)[0] ?? ""]);
  expect(listed).toEqual(
    createObserver()
      .metrics()
      .map(({ name, unit }) => [`sluice_${name}`, unit]),
  );
});

it("lists every outcome", () => {
  expect(rowsOf(section("Outcomes")).map(([name]) => namesIn(name)[0])).toEqual(OUTCOMES);
});

it("lists every event", () => {
  const [, types = ""] = /export type TransitionType =([^;]+);/.exec(read("src/observe/events.ts")) ?? [];
  const declared = [...types.matchAll(/"([a-z-]+)"/g)].map(([, type]) => type);
  const [, others = ""] = section("Events").split("All other events");
  expect(
    rowsOf(others)
      .flatMap(([cell]) => namesIn(cell))
      .sort(),
  ).toEqual(declared.sort());
});

it("lists every option of createObserver and jsonLog", () => {
  const optionsIn = (file: string, name: string) => {
    const [, body = ""] = new RegExp(`export interface ${name} \\{([\\s\\S]*?)\\n\\}`).exec(read(file)) ?? [];
    return [...body.matchAll(/^ {2}(\w+)\?:/gm)].map(([, option]) => option);
  };
  const [options = ""] = section("Options of `createObserver`").split("| method |");
  expect(rowsOf(options).map(([cell]) => namesIn(cell)[0])).toEqual(
    optionsIn("src/observe/observer.ts", "ObserverOptions"),
  );
  const [lines = ""] = section("Log lines").split("| field |");
  expect(rowsOf(lines).map(([cell]) => namesIn(cell)[0])).toEqual(
    optionsIn("src/observe/json-log.ts", "JsonLogOptions"),
  );
});
