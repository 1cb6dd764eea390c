/** A Durable Object that hibernates with open WebSockets and restores each connection. */
import { expect, it } from "vitest";
import { until } from "../../test/servers/until.js";
import { start } from "./servers.ts";

/** workerd evicts an object from memory after 10 s without requests. */
const IDLE_MS = 13_000;

it("restores buckets, strikes, users, counts and the application's attachment after hibernation", async () => {
  const server = await start("workerd", {
    capacity: 1000,
    more: { connection: { capacity: 5, tokensPerSecond: "1/h" }, closeAfter: 4, maxOpenPerUser: 2 },
  });
  const ann = await server.connect("ann");
  const other = await server.connect("ann");
  for (const n of [1, 2, 3]) ann.sendMessage(n);
  for (const n of [11, 12, 13, 14, 15, 16, 17]) other.sendMessage(n);
  await until("10 frames", async () => {
    const { handled, exceeded } = await server.journal();
    return handled.length + exceeded.length === 10 ? undefined : `${handled.length} and ${exceeded.length}`;
  });
  const before = await server.journal();
  expect(before.handled.filter((n) => n > 10)).toEqual([11, 12, 13, 14, 15]);

  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  for (const n of [4, 5, 6]) ann.sendMessage(n);
  for (const n of [18, 19]) other.sendMessage(n);
  expect(await other.closed).toBe(1013);
  const after = await server.journal();
  expect(after.born, "the object has hibernated").not.toBe(before.born);
  expect(after.handled.filter((n) => n < 10)).toEqual([1, 2, 3, 4, 5]);
  const of = (id: string | undefined) => after.exceeded.filter((info) => info.id === id).map(({ action }) => action);
  const [others] = before.exceeded;
  // Two strikes before hibernation and one after it; the fourth closes.
  expect(of(others?.id)).toEqual(["send", "send", "send", "close"]);
  const anns = after.exceeded.find(({ id }) => id !== others?.id);
  expect(of(anns?.id)).toEqual(["send"]);
  expect(after.attached).toMatchObject([
    { seen: 5, sluice: { id: anns?.id, ip: "127.0.0.1", data: { userId: "ann" } } },
  ]);
  // One of the two was closed.
  await server.connect("ann");
  await expect(server.connect("ann")).rejects.toThrow("429");
});
