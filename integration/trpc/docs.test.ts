/** Runs the app of docs/middleware/trpc.md. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { sameSnippets } from "../same-snippets.ts";
import { server } from "./docs/app.ts";
import { clientOf, send } from "./docs/client.ts";

sameSnippets("trpc", fileURLToPath(new URL("docs", import.meta.url)));

it("runs the app of docs/middleware/trpc.md", async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const client = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  expect(await send(client)).toBe("sent");
  expect(await send(client)).toBe("try again in 15 minutes");
  // Eight of ten are left.
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => client.hello.query()));
  expect(results.map((result) => (result.status === "fulfilled" ? result.value.remaining : "denied"))).toEqual([
    ...[7, 6, 5, 4, 3, 2, 1, 0],
    ...["denied", "denied"],
  ]);
});
