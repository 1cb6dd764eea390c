/** Cases about failures: of the store, and of callbacks of the application. */
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { expectNoFields } from "./client.ts";

export const failureCases: readonly MiddlewareCase[] = [
  {
    title: "follows onStoreError when the store is unavailable",
    routes: {
      local: ({ broken }) => ({ rateLimits: [{ limiter: broken({ onStoreError: "local" }) }] }),
      open: ({ broken }) => ({ rateLimits: [{ limiter: broken({ onStoreError: "open" }) }] }),
      closed: ({ broken }) => ({ rateLimits: [{ limiter: broken({ onStoreError: "closed" }) }] }),
      throwing: ({ broken }) => ({ rateLimits: [{ limiter: broken({ onStoreError: "throw" }) }] }),
    },
    async drive({ send, seen }) {
      for (const status of [200, 200, 429]) {
        const response = await send("/local");
        checkEqual(response.status, status, "local");
        expectNoFields(response, "local");
      }
      for (let i = 0; i < 4; i++) {
        const response = await send("/open");
        checkEqual(response.status, 200, "open");
        expectNoFields(response, "open");
      }
      const closed = await send("/closed");
      checkEqual(closed.status, 503, "closed");
      expectNoFields(closed, "closed");
      check(Number(closed.header("Retry-After")) >= 1, `Retry-After: ${closed.header("Retry-After")}`);
      checkEqual(closed.header("Cache-Control"), "no-store", "Cache-Control");
      checkEqual(closed.json().title, "Temporary Reduced Capacity", "the problem");
      const thrown = await send("/throwing");
      checkEqual(thrown.status, 500, "throw");
      expectNoFields(thrown, "throw");
      // Messages may contain stored keys and text of the store's server (issue 13).
      check(!/broken|store/.test(thrown.text), `the client sees no details: ${thrown.text}`);
      const { errors, handled } = await seen("throwing");
      check(errors.length === 1 && errors[0]?.endsWith("#store-unavailable") === true, `errors: ${errors}`);
      checkEqual(handled, 0, "how often the handler was called");
    },
  },
  {
    title: "rejects a request whose key or cost fails, unless onError allows it",
    routes: {
      keyThrows: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e1")), key: fails }] }),
      keyThrowsNothing: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e8")), key: throwsNothing }] }),
      keyRejectsNothing: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "e9")), key: () => Promise.reject() }],
      }),
      keyThrowsText: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e10")), key: throwsText }] }),
      keyRejects: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e2")), key: async () => fails() }] }),
      keyEmpty: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e3")), key: () => "" }] }),
      costThrows: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e4")), cost: fails }] }),
      costWrong: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "e5")), cost: () => -1 }] }),
      denying: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "e6")), key: fails, onError: () => "deny" }],
      }),
      allowing: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "e7")), key: fails, onError: () => "allow" }],
      }),
    },
    async drive({ send, seen }) {
      const failing =
        "keyThrows keyThrowsNothing keyThrowsText keyRejects keyRejectsNothing keyEmpty costThrows costWrong".split(
          " ",
        );
      for (const name of failing) {
        const response = await send(`/${name}`);
        checkEqual(response.status, 500, name);
        expectNoFields(response, name);
        const { errors, handled } = await seen(name);
        checkEqual([errors.length, handled], [1, 0], `${name}: errors reported, handler called`);
      }
      const denied = await send("/denying");
      checkEqual([denied.status, (await seen("denying")).handled], [503, 0], "deny");
      const allowed = await send("/allowing");
      checkEqual([allowed.status, (await seen("allowing")).handled], [200, 1], "allow");
      expectNoFields(allowed, "allow");
    },
  },
  {
    title: "sends the problem document and calls onError if onLimited fails",
    routes: {
      customThrows: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "custom-throws")), onLimited: fails, onError: () => "allow" }],
      }),
      customRejects: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "custom-rejects")), onLimited: async () => fails() }],
      }),
      customPromised: ({ limiter }) => {
        const promised = limiter(slow(1, "custom-promised"));
        return { rateLimits: [{ limiter: async () => promised, onLimited: fails }] };
      },
      customLater: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "custom-later")), onLimited: async () => undefined }],
      }),
    },
    async drive({ send, seen }) {
      for (const [name, errors] of [
        ["customThrows", 1],
        ["customRejects", 1],
        ["customPromised", 1],
        ["customLater", 0],
      ] as const) {
        checkEqual((await send(`/${name}`)).status, 200, name);
        const denied = await send(`/${name}`);
        checkEqual(
          [denied.status, denied.header("Content-Type")],
          [429, "application/problem+json"],
          `${name}, denied`,
        );
        check(Number(denied.header("Retry-After")) >= 1, `${name}: Retry-After: ${denied.header("Retry-After")}`);
        const log = await seen(name);
        checkEqual([log.errors.length, log.handled], [errors, 1], `${name}: errors reported, handler called`);
      }
    },
  },
];

function fails(): never {
  throw new Error("on purpose");
}

/** Express continues the request if the error is undefined. */
function throwsNothing(): never {
  throw undefined;
}

/** Express leaves the route if the error is the string "route". */
function throwsText(): never {
  throw "route";
}
