/** What happens when something fails: the store, or a function of the application. */
import { check, checkEqual as same } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { tellsNothing } from "./client.ts";

export const failingCases: readonly MiddlewareCase[] = [
  {
    title: "goes on without the store as the limiter was told to",
    routes: {
      local: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "local" }) }] }),
      open: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "open" }) }] }),
      closed: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "closed" }) }] }),
      throwing: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "throw" }) }] }),
    },
    async drive({ ask, seen }) {
      for (const status of [200, 200, 429]) {
        const answer = await ask("/local");
        same(answer.status, status, "local");
        tellsNothing(answer, "local");
      }
      for (let i = 0; i < 4; i++) {
        const answer = await ask("/open");
        same(answer.status, 200, "open");
        tellsNothing(answer, "open");
      }
      const closed = await ask("/closed");
      same(closed.status, 503, "closed");
      tellsNothing(closed, "closed");
      check(Number(closed.header("Retry-After")) >= 1, `Retry-After: ${closed.header("Retry-After")}`);
      same(closed.header("Cache-Control"), "no-store", "Cache-Control");
      same(closed.json().title, "Temporary Reduced Capacity", "the problem");
      const thrown = await ask("/throwing");
      same(thrown.status, 500, "throw");
      tellsNothing(thrown, "throw");
      // Messages may name stored keys, and quote what the store's server said (issue 13).
      check(!/broken|store/.test(thrown.text), `the client sees no details: ${thrown.text}`);
      const { errors, handled } = await seen("throwing");
      check(errors.length === 1 && errors[0]?.includes("[store-unavailable]") === true, `errors: ${errors}`);
      same(handled, 0, "how often the handler was reached");
    },
  },
  {
    title: "never lets a request through because key or cost failed, unless it was told to",
    routes: {
      keyThrows: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e1")), key: fails }] }),
      keyThrowsNothing: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e8")), key: throwsNothing }] }),
      keyRejectsNothing: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "e9")), key: () => Promise.reject() }],
      }),
      keyThrowsText: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e10")), key: throwsText }] }),
      keyRejects: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e2")), key: async () => fails() }] }),
      keyEmpty: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e3")), key: () => "" }] }),
      costThrows: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e4")), cost: fails }] }),
      costWrong: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e5")), cost: () => -1 }] }),
      denying: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "e6")), key: fails, onError: () => "deny" }],
      }),
      allowing: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "e7")), key: fails, onError: () => "allow" }],
      }),
    },
    async drive({ ask, seen }) {
      const failing =
        "keyThrows keyThrowsNothing keyThrowsText keyRejects keyRejectsNothing keyEmpty costThrows costWrong".split(
          " ",
        );
      for (const name of failing) {
        const answer = await ask(`/${name}`);
        same(answer.status, 500, name);
        tellsNothing(answer, name);
        const { errors, handled } = await seen(name);
        same([errors.length, handled], [1, 0], `${name}: errors told, handler reached`);
      }
      const denied = await ask("/denying");
      same([denied.status, (await seen("denying")).handled], [503, 0], "deny");
      const allowed = await ask("/allowing");
      same([allowed.status, (await seen("allowing")).handled], [200, 1], "allow");
      tellsNothing(allowed, "allow");
    },
  },
  {
    title: "denies as ever if what writes the body of a denial fails, and tells of it",
    routes: {
      customThrows: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "custom-throws")), onLimited: fails, onError: () => "allow" }],
      }),
      customRejects: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "custom-rejects")), onLimited: async () => fails() }],
      }),
      customPromised: ({ limiter }) => {
        const promised = limiter(slow(1, "custom-promised"));
        return { guards: [{ limiter: async () => promised, onLimited: fails }] };
      },
      customLater: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "custom-later")), onLimited: async () => undefined }],
      }),
    },
    async drive({ ask, seen }) {
      for (const [name, errors] of [
        ["customThrows", 1],
        ["customRejects", 1],
        ["customPromised", 1],
        ["customLater", 0],
      ] as const) {
        same((await ask(`/${name}`)).status, 200, name);
        const denied = await ask(`/${name}`);
        same([denied.status, denied.header("Content-Type")], [429, "application/problem+json"], `${name}, denied`);
        check(Number(denied.header("Retry-After")) >= 1, `${name}: Retry-After: ${denied.header("Retry-After")}`);
        const told = await seen(name);
        same([told.errors.length, told.handled], [errors, 1], `${name}: errors told, handler reached`);
      }
    },
  },
];

function fails(): never {
  throw new Error("on purpose");
}

/** Express takes this for no error at all. */
function throwsNothing(): never {
  throw undefined;
}

/** Express takes this for the wish to leave the route. */
function throwsText(): never {
  throw "route";
}
