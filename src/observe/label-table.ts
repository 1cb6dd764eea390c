/** Counters by label. The number of labels is bounded: names may come from code that makes one per customer. */

/** The label of whatever does not fit. */
const OTHER = "other";

/** One row of numbers per label. */
export class LabelTable<Row> {
  readonly rows: Map<string, Row> = new Map();
  private readonly maxRows: number;
  private readonly create: (label: string) => Row;
  private readonly onFull: () => void;
  private isFull = false;

  /** `onFull` is called once, when a label is first counted as `other`. */
  constructor(maxRows: number, create: (label: string) => Row, onFull: () => void) {
    this.maxRows = maxRows;
    this.create = create;
    this.onFull = onFull;
  }

  /** The row of a label; that of `other` if there are too many. */
  row(label: string): Row {
    const found = this.rows.get(label);
    if (found) return found;
    // One row is kept for `other`.
    if (this.rows.size < this.maxRows - 1 || label === OTHER) {
      const row = this.create(label);
      this.rows.set(label, row);
      return row;
    }
    if (!this.isFull) {
      this.isFull = true;
      this.onFull();
    }
    return this.row(OTHER);
  }
}
