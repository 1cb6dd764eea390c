/** Patterns of rules: `"GET|HEAD /v1/users/:id"`. */

/** A parsed pattern. */
export interface Pattern {
  /** As written. */
  readonly text: string;
  /** The methods; `undefined`: all. GET includes HEAD. */
  readonly methods: readonly string[] | undefined;
  /** Literal segments, or `undefined` for a `:name`. */
  readonly segments: readonly (string | undefined)[];
  /** Whether it ends in `*`, which matches zero or more segments. */
  readonly isOpen: boolean;
}
