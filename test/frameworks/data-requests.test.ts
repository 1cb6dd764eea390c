/** Rules on frameworks whose browser code loads the data of a page from another path: it is no way around a rule. */
import { rateLimit as limitReactRouter } from "sluice/react-router";
import { loadRules } from "sluice/rules";
import { rateLimit as limitSvelteKit } from "sluice/sveltekit";
import { expect, it } from "vitest";

const rules = () =>
  loadRules(
    { rules: [{ name: "login", match: "/login", limits: { ip: "1/d fixed" } }], fallback: { unlimited: true } },
    { facts: [] },
  );
const handled = async () => new Response("handled");
const url = new URL("https://example.com/login");

it("matches __data.json of a page of SvelteKit", async () => {
  const handle = limitSvelteKit({ rules: rules() });
  const statusOf = async (path: string, isDataRequest: boolean) => {
    const request = new Request(new URL(path, url));
    const event = { request, url: new URL(url), isDataRequest, getClientAddress: () => "203.0.113.7" };
    return (await handle({ event: event as never, resolve: handled })).status;
  };
  expect(await statusOf("/login", false)).toBe(200);
  expect(await statusOf("/login/__data.json", true)).toBe(429);
  // A remote function: `url` is that of a header of the client.
  expect(await statusOf("/_app/remote/1/send", false)).toBe(200);
});

it("matches .data of a route of React Router", async () => {
  const middleware = limitReactRouter({ rules: rules(), identity: { unidentified: "share" } });
  const statusOf = async (path: string, more: object) => {
    const args = { request: new Request(new URL(path, url)), params: {}, context: {}, ...more };
    return ((await middleware(args as never, handled)) as Response).status;
  };
  expect(await statusOf("/login", {})).toBe(200);
  expect(await statusOf("/login.data", { url })).toBe(429);
});
