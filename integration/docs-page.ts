/** Sends the requests that a page of docs/ lists to its app, and compares the responses with those of the page. */
import { expect } from "vitest";
import { read } from "../test/snippets.ts";

/** The requests that a page lists, and the status of each: `GET /health 200 200`. */
export interface PageResult {
  readonly method: string;
  readonly path: string;
  readonly statuses: readonly number[];
}

/** The list after "What its clients get:". */
export function resultsOf(page: string): PageResult[] {
  const [, list = ""] = /^What its clients get:\n\n```text\n([\s\S]*?)\n```$/m.exec(read(page)) ?? [];
  if (list === "") throw new Error(`${page} does not say what its clients get`);
  return list.split("\n").map((line) => {
    const [, method, path, statuses] = /^([A-Z]+) +(\/\S*) +([\d ]+)$/.exec(line) ?? [];
    if (!method || !path || !statuses) throw new Error(`${page}: not a request with its statuses: ${line}`);
    return { method, path, statuses: statuses.split(" ").map(Number) };
  });
}

/** Sends the requests of a page in their order. */
export async function expectResults(page: string, url: string): Promise<void> {
  for (const { method, path, statuses } of resultsOf(page)) {
    const received = [];
    for (const _ of statuses) {
      const response = await fetch(new URL(path, url), { method });
      await response.arrayBuffer();
      received.push(response.status);
      if (response.status === 429) expect(response.headers.get("Retry-After"), `${method} ${path}`).toMatch(/^\d+$/);
    }
    expect(received, `${method} ${path}`).toEqual(statuses);
  }
}
