/** Formats results: medians with their range, goals with their verdict, tables in Markdown. */

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** A number to three significant digits. Integers are not shortened. */
export function formatNumber(value) {
  return Number.isInteger(value) || Math.abs(value) >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}

/** The median, and the range of several values. */
export function spread(values, unit = "") {
  const range = values.length > 1 ? ` [${formatNumber(Math.min(...values))}-${formatNumber(Math.max(...values))}]` : "";
  return `${formatNumber(median(values))}${unit}${range}`;
}

/** The ratio of `a` to `b` per repeat: load on the machine affects both values of a repeat. */
export function ratios(a, b) {
  return a.map((value, i) => value / b[i]);
}

/** The row of a goal, which the median decides. */
export function goal(title, values, comparison, bound, unit = "") {
  const met = comparison === ">=" ? median(values) >= bound : median(values) <= bound;
  return [title, spread(values, unit), `${comparison} ${bound}${unit}`, met ? "met" : "MISSED"];
}

export function goalTable(goals) {
  return table(["goal", "result", "target", "verdict"], goals);
}

export function table(head, rows) {
  const widths = head.map((cell, i) => Math.max(3, cell.length, ...rows.map((row) => String(row[i]).length)));
  const line = (cells) => `| ${cells.map((cell, i) => String(cell).padEnd(widths[i])).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
