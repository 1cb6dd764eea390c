/** Bodies of preflights on servers that use `Request` (issue 13). */
import { describe, expect, it } from "vitest";
import { rateLimit } from "../fetch.ts";

const PREFLIGHT = { Origin: "https://elsewhere.example", "Access-Control-Request-Method": "POST" };

/** A request without headers about its body, as over HTTP/2. */
function preflight(chunks?: string[], headers: Record<string, string> = {}): Request {
  const body =
    chunks &&
    new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
        controller.close();
      },
    });
  const init = { method: "OPTIONS", headers: { ...PREFLIGHT, ...headers }, body, duplex: "half" };
  return new Request("https://example.com/", init as RequestInit);
}

async function statuses(make: () => Request): Promise<[number[], string[]]> {
  const bodies: string[] = [];
  const handle = rateLimit({ policy: "1/h", key: () => "k" })(async (request) => {
    bodies.push(await request.text());
    return new Response("handled");
  });
  const found: number[] = [];
  for (let i = 0; i < 3; i++) found.push((await handle(make())).status);
  return [found, bodies];
}

describe("an OPTIONS request", () => {
  it.each<[string, string[] | undefined]>([
    ["without a body", undefined],
    ["with an empty stream, as on Deno", []],
    ["with a stream of empty chunks", ["", ""]],
  ])("%s is a preflight", async (_what, chunks) => {
    expect(await statuses(() => preflight(chunks))).toEqual([
      [200, 200, 200],
      ["", "", ""],
    ]);
  });

  it("with data is charged, and its body can still be read", async () => {
    const [found, bodies] = await statuses(() => preflight(["", "password", "=hunter2"]));
    expect([found, bodies]).toEqual([[200, 429, 429], ["password=hunter2"]]);
  });

  it("with a stream that fails is charged", async () => {
    const failing = () => {
      const body = new ReadableStream({ start: (controller) => controller.error(new Error("reset")) });
      return new Request("https://example.com/", { ...INIT, body } as RequestInit);
    };
    const handle = rateLimit({ policy: "1/h", key: () => "k" })(() => new Response("handled"));
    expect([(await handle(failing())).status, (await handle(failing())).status]).toEqual([200, 429]);
  });

  it("whose body was read before is charged", async () => {
    const handle = rateLimit({ policy: "1/h", key: () => "k" })(() => new Response("handled"));
    const found: number[] = [];
    for (let i = 0; i < 2; i++) {
      const request = preflight(["password"]);
      await request.text();
      found.push((await handle(request)).status);
    }
    expect(found).toEqual([200, 429]);
  });
});

const INIT = { method: "OPTIONS", headers: PREFLIGHT, duplex: "half" };
