/** Problems in a rule file: where each is, what is wrong, and the error that lists them. */
import { SluiceError, show } from "../base/errors.ts";
import { closest } from "./closest.ts";
import type { Issue } from "./rules-data.ts";

/** A place in the data. Its texts are made when an issue needs them: a file may have 100 000 overrides. */
export interface Place {
  readonly parent?: Place;
  readonly key: string | number;
  path?: string;
  pointer?: string;
}

/** The data as a whole. */
export const ROOT: Place = { key: "", path: "", pointer: "" };

/** Enough to fix a file in a few rounds. */
const MAX_ISSUES = 100;
/** Issues in the message of an error; `issues` has all of them. */
const MAX_ISSUES_IN_MESSAGE = 5;
/** Names in a list of all known names. A rule has 16 members. */
const MAX_NAMES = 20;
/** Names that are compared with all known ones. A file of misspelt names takes no longer than any other. */
const MAX_SUGGESTIONS = 20;

/** The place of a member or an item. */
export function at(parent: Place, key: string | number): Place {
  return { parent, key };
}

/** Where it is: `rules[3].limits.tenant`, or `overrides["tenant:acme"].api`. */
export function pathOf(place: Place): string {
  if (place.path !== undefined) return place.path;
  const { parent = ROOT, key } = place;
  const start = pathOf(parent);
  const isName = typeof key === "string" && /^[A-Za-z_$][\w$]*$/.test(key);
  const end = isName ? `${start && "."}${key}` : `[${JSON.stringify(key)}]`;
  return (place.path = start + end);
}

/** The same as a JSON pointer: `/rules/3/limits/tenant`. */
function pointerOf(place: Place): string {
  if (place.pointer !== undefined) return place.pointer;
  const { parent = ROOT, key } = place;
  // `replaceAll` takes 300 ms for 1 MB of slashes, this 60 ms.
  const escaped = String(key).split("~").join("~0").split("/").join("~1");
  return (place.pointer = `${pointerOf(parent)}/${escaped}`);
}

/** The issues of one file. */
export class Issues {
  /** The data, which issues quote. */
  data: unknown;
  /** The first issues. */
  readonly list: Issue[] = [];
  /** How many there are, also beyond the list. */
  count = 0;
  private compared = 0;

  /**
   * Adds an issue, once if two limits are made from one text. `message` is a sentence that follows the path; a function
   * makes it only if the list has room.
   */
  add(place: Place, message: string | ((received: unknown) => string)): void {
    this.count++;
    if (this.isFull) return;
    const received = this.valueAt(place);
    const text = typeof message === "string" ? message : message(received);
    const pointer = pointerOf(place);
    if (this.list.some((issue) => issue.pointer === pointer && issue.message === text)) return;
    this.list.push({ path: pathOf(place), pointer, message: text, received });
  }

  /** Whether further issues are only counted. */
  get isFull(): boolean {
    return this.list.length >= MAX_ISSUES;
  }

  /** Adds that a value must be something else. */
  addType(place: Place, expected: string): void {
    this.add(place, (received) => `must be ${expected}, but received ${show(received)}`);
  }

  /** Adds that a name is unknown, with the known name that it probably stands for, or else with `otherwise`. */
  addUnknown(place: Place, what: string, name: string, known: readonly string[], otherwise: string): void {
    this.add(place, () => {
      const meant = ++this.compared > MAX_SUGGESTIONS ? undefined : closest(name, known);
      return `unknown ${what} ${show(name)}; ${meant === undefined ? otherwise : `did you mean ${show(meant)}?`}`;
    });
  }

  private valueAt({ parent, key }: Place): unknown {
    if (!parent) return this.data;
    const owner = this.valueAt(parent);
    const hasKey = typeof owner === "object" && owner !== null && Object.hasOwn(owner, key);
    return hasKey ? (owner as Record<string | number, unknown>)[key] : undefined;
  }
}

/** The error for invalid rules. Its message has the first issues, `issues` has all. */
export function invalidRules(issues: readonly Issue[]): SluiceError {
  const lines = issues
    .slice(0, MAX_ISSUES_IN_MESSAGE)
    .map(({ path, message }) => (path === "" ? `The data ${message}` : `${path}: ${message}`));
  const more = issues.length - lines.length;
  if (more > 0) lines.push(`and ${more} more`);
  const text = lines.join("\n");
  const { path: option = "", received } = issues[0] ?? {};
  const error = new SluiceError("invalid-rules", text.endsWith("?") ? text : `${text}.`, { option, received });
  // Set here and not by the constructor, which is a part of every bundle.
  return Object.assign(error, { issues });
}

/** Names in quotes, `"a", "b" and "c"`, and how many more there are than fit into a message. */
export function quoted(names: readonly string[]): string {
  const texts = names.slice(0, MAX_NAMES).map(show);
  const last = names.length > MAX_NAMES ? `${names.length - MAX_NAMES} more` : (texts.pop() ?? "");
  return texts.length > 0 ? `${texts.join(", ")} and ${last}` : last;
}
