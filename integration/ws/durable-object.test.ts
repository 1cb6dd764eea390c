/** Tests of `guardDurableObject` beyond those that all servers share. */
import { describe, expect, it } from "vitest";
import { until } from "../../test/servers/until.js";
import { type Server, start } from "./servers.ts";

/** Waits until this many frames were handled, and returns the journal. */
async function after(server: Server, frames: number) {
  await until(`${frames} frames`, async () => {
    const { handled } = await server.journal();
    return handled.length === frames ? undefined : `${handled.length}`;
  });
  return server.journal();
}

describe("guardDurableObject", () => {
  it("rejects a connection whose data can't be attached, and does not count it", async () => {
    const server = await start("workerd", { more: { maxOpenPerAddress: 2 } });
    for (let n = 0; n < 4; n++) await expect(server.connect("ann&big=20000")).rejects.toThrow("500");
    for (let n = 0; n < 2; n++) await server.connect("ann&big=1000");
    await expect(server.connect("ann")).rejects.toThrow("429");
  });

  it("restores its state in an attachment that the application has replaced", async () => {
    const server = await start("workerd", { capacity: 100 });
    const client = await server.connect("ann");
    client.sendMessage(1, { replace: { own: true } });
    const { attached, errors } = await after(server, 1);
    expect(attached).toMatchObject([{ own: true, sluice: { data: { userId: "ann" } } }]);
    expect(errors).toEqual([]);
  });

  it("continues in memory, and reports it, if the attachment is not an object", async () => {
    const server = await start("workerd", { capacity: 2 });
    const client = await server.connect("ann");
    for (const n of [1, 2, 3]) client.sendMessage(n, { replace: "a text" });
    const { attached, errors } = await after(server, 2);
    expect(attached).toEqual(["a text"]);
    expect(errors[0]).toContain(
      "attachment must be an object, because sluice stores the connection's state in attachment.sluice.",
    );
    await until("a notice", async () => (client.notices.length > 0 ? undefined : "none"));
  });

  it("counts a closed socket until its client has disconnected", async () => {
    const server = await start("workerd", { capacity: 1, onExceeded: "close", more: { maxOpenPerAddress: 2 } });
    const silent = [await server.connectSilent(), await server.connectSilent()];
    for (const client of silent) for (const n of [1, 2]) client.sendMessage(n);
    await until("both are closed", async () => {
      const { open } = await server.journal();
      return open === 0 ? undefined : `${open} open`;
    });
    for (let n = 0; n < 3; n++) await expect(server.connect()).rejects.toThrow("429");
    for (const client of silent) client.disconnect();
    await until("a connection", () => server.connect().then(() => undefined));
  });
});
