/** Formats values that are nested so deeply that `JSON.stringify`, which is recursive, would overflow the stack. */

/** A value to format, or text that comes after or between values. */
type Task = { readonly value: unknown } | string;

/**
 * The same text as that of `JSON.stringify`; `undefined` if it is longer than `maxChars`, as that of a cycle would be.
 * `check` is called with every value.
 */
export function deepJson(value: unknown, maxChars: number, check: (value: unknown) => void): string | undefined {
  const tasks: Task[] = [{ value }];
  let text = "";
  for (let task = tasks.pop(); task !== undefined && text.length <= maxChars; task = tasks.pop()) {
    if (typeof task === "string") text += task;
    else if (typeof task.value === "object" && task.value !== null) addMembers(tasks, resolved(task.value), check);
    else text += JSON.stringify(task.value) ?? "null";
  }
  return text.length > maxChars ? undefined : text;
}

/** Adds what an object consists of, the last part first. */
function addMembers(tasks: Task[], value: unknown, check: (value: unknown) => void): void {
  check(value);
  if (typeof value !== "object" || value === null) {
    tasks.push({ value });
    return;
  }
  const isList = Array.isArray(value);
  const members = Object.entries(value).filter(([, member]) => isList || JSON_TYPES.includes(typeof member));
  tasks.push(isList ? "]" : "}");
  for (let i = members.length - 1; i >= 0; i--) {
    const [name, member] = members[i] as [string, unknown];
    tasks.push({ value: member });
    tasks.push(`${i > 0 ? "," : ""}${isList ? "" : `${JSON.stringify(name)}:`}`);
  }
  tasks.push(isList ? "[" : "{");
}

/** Members of other types are left out. */
const JSON_TYPES: readonly string[] = ["string", "number", "boolean", "object"];

/** What `JSON.stringify` formats in place of an object with `toJSON`, such as a date. */
function resolved(value: object): unknown {
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === "function" ? toJSON.call(value) : value;
}
