/** Spellings of one path, to check that none bypasses a limiter. */
import { expect } from "vitest";
import { sendRequest } from "./send-request.ts";

/** `/api/item` in every spelling that some router accepts. */
const SPELLINGS = [
  "/api/item",
  "/api/item/",
  "/api/item?x=1",
  "/api/item#x",
  "/API/item",
  "/api/ITEM",
  "//api/item",
  "/api//item",
  "/api/item//",
  "/./api/item",
  "/api/./item",
  "/x/../api/item",
  "/api/x/../item",
  "/%61pi/item",
  "/api/%69tem",
  "/api%2fitem",
  "/api%2Fitem",
  "/%2fapi/item",
  "/api/item%2f",
  "/api/%2e/item",
  "/x/%2e%2e/api/item",
  "/api;x/item",
  "/api/item;x",
  "/api%3b/item",
  "/api\\item",
  "/api/item%00",
  "/api/item%20",
  "http://elsewhere.example/api/item",
];

/**
 * Checks that every spelling the router accepts is counted, and that none reaches the handler of an exhausted limiter.
 * Returns the spellings that the router accepts.
 * @param start serves `/api/item` behind a limiter with this capacity
 */
export async function expectNoBypass(
  start: (capacity: 1 | 1000) => Promise<{ url: string; reached(): number; close(): Promise<void> }>,
): Promise<string[]> {
  const open = await start(1000);
  const accepted: string[] = [];
  for (const path of SPELLINGS) {
    const before = open.reached();
    const { header } = await sendRequest(open.url, path);
    if (open.reached() === before) continue;
    accepted.push(path);
    expect(header("RateLimit"), `${path} is counted`).toMatch(/^"api";r=/);
  }
  await open.close();
  const spent = await start(1);
  await sendRequest(spent.url, "/api/item");
  expect(spent.reached()).toBe(1);
  for (const path of SPELLINGS) await sendRequest(spent.url, path);
  expect(spent.reached(), "reached with nothing left").toBe(1);
  await spent.close();
  return accepted;
}
