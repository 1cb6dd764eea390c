/** `sluice/h3` with the options of an app. */
import { H3, HTTPError } from "h3";
import { rateLimit } from "sluice/h3";
import { expect, it } from "vitest";

it("calls onError and onResponse of the app once for each response", async () => {
  const calls: unknown[] = [];
  const app = new H3({
    onError: ({ status }) => {
      calls.push(status);
      return new Response("own page", { status });
    },
    onResponse: ({ status }) => void calls.push(`sent ${status}`),
  });
  app.use(rateLimit({ policy: "9/d", key: () => "k" }));
  app.get("/", () => "ok");
  app.get("/returned", () => new HTTPError({ status: 418 }));
  app.get("/thrown", () => {
    throw new HTTPError({ status: 409 });
  });
  for (const path of ["/", "/none", "/returned", "/thrown"]) {
    const text = await (await app.request(path)).text();
    expect(text).toBe(path === "/" ? "ok" : "own page");
  }
  expect(calls).toEqual(["sent 200", 404, "sent 404", 418, "sent 418", 409, "sent 409"]);
});
