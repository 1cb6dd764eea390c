/** Figures as text: medians with their range, goals with their verdict, tables in Markdown. */

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** One figure to three digits, whole numbers as they are. */
export function figure(value) {
  return Number.isInteger(value) || Math.abs(value) >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}

/** The median, and the range when there is one. */
export function spread(values, unit = "") {
  const range = values.length > 1 ? ` [${figure(Math.min(...values))}-${figure(Math.max(...values))}]` : "";
  return `${figure(median(values))}${unit}${range}`;
}

/** What each repeat of `a` is to the same repeat of `b`: the machine's mood is in both. */
export function ratios(a, b) {
  return a.map((value, i) => value / b[i]);
}

/** A goal's row. The median decides, not the best repeat. */
export function goal(what, values, comparison, bound, unit = "") {
  const met = comparison === ">=" ? median(values) >= bound : median(values) <= bound;
  return [what, spread(values, unit), `${comparison} ${bound}${unit}`, met ? "met" : "MISSED"];
}

export function goalTable(goals) {
  return table(["goal", "figure", "wanted", "verdict"], goals);
}

export function table(head, rows) {
  const widths = head.map((cell, i) => Math.max(3, cell.length, ...rows.map((row) => String(row[i]).length)));
  const line = (cells) => `| ${cells.map((cell, i) => String(cell).padEnd(widths[i])).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
