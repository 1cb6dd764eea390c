/** `refundIf` with what `redirect` and `notFound` of Next.js throw: these are responses, and not failures. */
import { limitAction, limitRoute } from "sluice/next";
import { describe, expect, it } from "vitest";

const thrown = (digest: string) => () => {
  throw Object.assign(new Error("thrown by Next.js"), { digest });
};
const options = { policy: "1/d", key: () => "k", refundIf: "failed" } as const;

describe.each([
  ["a redirect", "NEXT_REDIRECT;push;/done;a;303;", false],
  ["a response of 404", "NEXT_HTTP_ERROR_FALLBACK;404", true],
  ["another error", "1234567890", true],
])("%s", (_name, digest, isRefunded) => {
  it(`${isRefunded ? "fails" : "does not fail"} a Server Action`, async () => {
    const action = limitAction<[], string>(
      { ...options, headers: () => new Headers(), onLimited: () => "limited" },
      thrown(digest),
    );
    await expect(action()).rejects.toMatchObject({ digest });
    if (isRefunded) await expect(action()).rejects.toMatchObject({ digest });
    else expect(await action()).toBe("limited");
  });

  it(`${isRefunded ? "fails" : "does not fail"} a route handler`, async () => {
    const route = limitRoute(options)(thrown(digest));
    const call = () => route(new Request("https://example.com/"));
    await expect(call()).rejects.toMatchObject({ digest });
    if (isRefunded) await expect(call()).rejects.toMatchObject({ digest });
    else expect((await call()).status).toBe(429);
  });
});
