/** Warnings of middleware reach an observer without addresses and texts of errors. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { rateLimit as fetchLimit } from "sluice/fetch";
import { rateLimit } from "sluice/node";
import { createObserver, type ObserverEvent } from "sluice/observe";
import { expect, it, onTestFinished } from "vitest";

it("does not name the address of a proxy", async () => {
  const observer = createObserver();
  const [observed, emitted]: [ObserverEvent[], object[]] = [[], []];
  observer.on((event) => observed.push(event));
  const limit = rateLimit({ policy: "5/s", observer, onEvent: (event) => emitted.push(event) });
  const server = createServer(limit((_, response) => void response.end())).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await fetch(`http://127.0.0.1:${port}`, { headers: { "x-forwarded-for": "203.0.113.1" } });
  expect(JSON.stringify(emitted)).toContain('trustedProxies: [\\"127.0.0.1\\"]');
  expect(observed).toContainEqual(expect.objectContaining({ type: "warning" }));
  expect(JSON.stringify(observed)).not.toContain("127.0.0.1");
});

it("does not contain the error of a token's key", async () => {
  const observer = createObserver();
  const [observed, emitted]: [ObserverEvent[], object[]] = [[], []];
  observer.on((event) => observed.push(event));
  const jose = {
    createRemoteJWKSet: () => () => {},
    jwtVerify: () => Promise.reject(new Error("no key for canary@example.com")),
  } as never;
  const jwt = { algorithms: ["RS256"], jwks: "https://auth.example.com/jwks", jose };
  const identity = { trustedProxies: 1, header: "cf-connecting-ip", jwt } as const;
  const limit = fetchLimit({ policy: "5/s", identity, observer, onEvent: (event) => emitted.push(event) });
  const headers = { authorization: "Bearer a.b.c", "cf-connecting-ip": "203.0.113.1" };
  await limit(() => new Response("ok"))(new Request("http://localhost/", { headers }));
  expect(JSON.stringify(emitted)).toContain("canary");
  expect(observed).toContainEqual(expect.objectContaining({ type: "warning" }));
  expect(JSON.stringify(observed)).not.toContain("canary");
});
