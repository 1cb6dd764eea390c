/** `guardDurableObject`, beyond what it has in common with other servers. */
import { describe, expect, it } from "vitest";
import { until } from "../../test/servers/until.js";
import { type Server, start } from "./servers.ts";

/** What is there when so many frames were handled. */
async function after(server: Server, frames: number) {
  await until(`${frames} frames`, async () => {
    const { handled } = await server.journal();
    return handled.length === frames ? undefined : `${handled.length}`;
  });
  return server.journal();
}

describe("guardDurableObject", () => {
  it("lets nobody in whose data can't be attached, and counts nobody who is not in", async () => {
    const server = await start("workerd", { more: { maxOpenPerAddress: 2 } });
    for (let n = 0; n < 4; n++) await expect(server.connect("ann&big=20000")).rejects.toThrow("500");
    for (let n = 0; n < 2; n++) await server.connect("ann&big=1000");
    await expect(server.connect("ann")).rejects.toThrow("429");
  });

  it("attaches again what the application has replaced", async () => {
    const server = await start("workerd", { capacity: 100 });
    const client = await server.connect("ann");
    client.say(1, { replace: { own: true } });
    const { attached, errors } = await after(server, 1);
    expect(attached).toMatchObject([{ own: true, sluice: { data: { userId: "ann" } } }]);
    expect(errors).toEqual([]);
  });

  it("goes on in memory beside an attachment that has no room, and says so", async () => {
    const server = await start("workerd", { capacity: 2 });
    const client = await server.connect("ann");
    for (const n of [1, 2, 3]) client.say(n, { replace: "a text" });
    const { attached, errors } = await after(server, 2);
    expect(attached).toEqual(["a text"]);
    expect(errors[0]).toContain("attachment: expected an object, of which the member sluice is left alone");
    await until("a notice", async () => (client.told.length > 0 ? undefined : "none"));
  });

  it("counts a socket that it has closed until its client is gone", async () => {
    const server = await start("workerd", { capacity: 1, onExceeded: "close", more: { maxOpenPerAddress: 2 } });
    const silent = [await server.connectSilent(), await server.connectSilent()];
    for (const client of silent) for (const n of [1, 2]) client.say(n);
    await until("both are closed", async () => {
      const { open } = await server.journal();
      return open === 0 ? undefined : `${open} open`;
    });
    for (let n = 0; n < 3; n++) await expect(server.connect()).rejects.toThrow("429");
    for (const client of silent) client.leave();
    await until("a place", () => server.connect().then(() => undefined));
  });
});
