/** Finds the known name that a misspelt one probably stands for. */

/** Names above this length get no suggestion: comparing them takes too long. */
const MAX_COMPARED_CHARS = 40;

/** The known name that a misspelt one probably stands for. */
export function closest(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_COMPARED_CHARS) return undefined;
  let found: string | undefined;
  let least = Math.min(3, 1 + name.length / 3);
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= least) continue;
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < least) [found, least] = [candidate, distance];
  }
  return found;
}

/** How many letters must be added, removed or replaced. */
function editDistance(a: string, b: string): number {
  // Similar names differ in a few letters, so that little is left to compare.
  let [start, endA, endB] = [0, a.length, b.length];
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1];
  let row = Array.from({ length: endB - start + 1 }, (_, j) => j);
  for (let i = 1; i <= endA - start; i++) {
    const next = [i];
    for (let j = 1; j < row.length; j++) {
      const replaced = (row[j - 1] as number) + (a[start + i - 1] === b[start + j - 1] ? 0 : 1);
      next.push(Math.min(replaced, 1 + (row[j] as number), 1 + (next[j - 1] as number)));
    }
    row = next;
  }
  return row.at(-1) as number;
}
