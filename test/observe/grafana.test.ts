/** Tests of the Grafana dashboards as data. integration/observe runs their queries. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { makeGrafana } from "../../scripts/make-grafana.js";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly description: string;
  readonly type: string;
  readonly datasource: unknown;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { refId: string; expr: string; legendFormat: string; datasource: unknown }[];
  readonly fieldConfig: { readonly defaults: { readonly unit: string } };
}

interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly templating: {
    readonly list: readonly { name: string; type: string; datasource?: unknown; query: unknown }[];
  };
  readonly panels: readonly Panel[];
}

const dashboards = [...makeGrafana()];
const DATASOURCE = { type: "prometheus", uid: `\${datasource}` };
const TITLES = [
  "Requests by outcome",
  "Denied share by rule",
  "Store",
  "Degraded decisions and store errors",
  "Store latency",
  "Shadow rules: would deny",
  "Most denied key",
  "Cost by policy",
  "Memory stores: keys and evictions",
];

const overlap = ({ gridPos: a }: Panel, { gridPos: b }: Panel): boolean =>
  a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

describe.each(dashboards)("%s", (file, text) => {
  const dashboard: Dashboard = JSON.parse(text);
  const { panels, templating } = dashboard;

  it("is what node scripts/make-grafana.js writes", () => {
    expect(readFileSync(new URL(`../../${file}`, import.meta.url), "utf8")).toBe(text);
  });

  it("has the uid of its file, and the format of Grafana 11 or newer", () => {
    expect(file).toBe(`docs/grafana/${dashboard.uid}.json`);
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(39);
  });

  it("has the variables datasource and rule", () => {
    expect(templating.list.map(({ name, type }) => `${name} ${type}`)).toEqual(["datasource datasource", "rule query"]);
    expect(templating.list[1]?.datasource).toEqual(DATASOURCE);
  });

  it("has every panel, with an id of its own", () => {
    expect(panels.map(({ title }) => title)).toEqual(TITLES);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  });

  it("has a grid of 24 columns without overlaps and gaps", () => {
    for (const panel of panels) {
      expect(panel.gridPos.x + panel.gridPos.w, panel.title).toBeLessThanOrEqual(24);
      expect(panels.filter((other) => other !== panel && overlap(other, panel)).map(({ title }) => title)).toEqual([]);
    }
    const area = panels.reduce((sum, { gridPos: { w, h } }) => sum + w * h, 0);
    const height = Math.max(...panels.map(({ gridPos: { y, h } }) => y + h));
    expect(area).toBe(24 * height);
  });

  it.each(panels.map((panel) => [panel.title, panel] as const))("describes and queries %s", (_, panel) => {
    expect(panel.description.length).toBeGreaterThan(30);
    expect(panel.fieldConfig.defaults.unit).not.toBe("");
    expect(panel.datasource).toEqual(DATASOURCE);
    expect(panel.targets.length).toBeGreaterThan(0);
    expect(panel.targets.map(({ refId }) => refId)).toEqual(["A", "B"].slice(0, panel.targets.length));
    for (const { expr, legendFormat, datasource } of panel.targets) {
      expect(expr).toContain("sluice_");
      expect(legendFormat).toMatch(/\{\{\w+\}\}/);
      expect(datasource).toEqual(DATASOURCE);
      // A legend shows a label that the query keeps.
      for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
        expect(expr).toMatch(new RegExp(`by \\([^)]*\\b${label}\\b`));
      }
    }
  });
});
