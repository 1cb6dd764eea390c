/** Validates options that contain secrets. */
import { checkOptions, type OptionHints } from "../../base/options.ts";

/** Like `checkOptions`, but errors don't contain values: a misspelt option may be a secret. */
export function checkSecretOptions(
  what: string,
  options: unknown,
  known: readonly string[],
  hints?: OptionHints,
): void {
  const isObject = typeof options === "object" && options !== null && !Array.isArray(options);
  const names = isObject ? Object.entries(options).filter(([, value]) => value !== undefined) : [];
  checkOptions(
    what,
    isObject ? Object.fromEntries(names.map(([name]) => [name, "(hidden)"])) : undefined,
    known,
    hints,
  );
}
