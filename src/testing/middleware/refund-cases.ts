/** Cases about refunds: which outcomes of a request refund its cost. */
import type { RequestDecision, RequestOutcome } from "../../middleware/gate/options.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow, times } from "./case.ts";

export const refundCases: readonly MiddlewareCase[] = [
  {
    title: "refunds failed requests once with refundIf: failed",
    routes: {
      refundFailed: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(2, "refund-failed")), refundIf: "failed" }],
        handle(path) {
          if (path.endsWith("/thrown")) throw new Error("on purpose");
          return { status: Number(path.split("/")[2]) };
        },
      }),
    },
    async drive({ send, statuses }) {
      const left = async () => /r=(\d+)/.exec((await send("/refundFailed/204")).header("RateLimit") ?? "")?.[1];
      for (const status of [500, 500, 404, 500])
        checkEqual((await send(`/refundFailed/${status}`)).status, status, "failed");
      check((await send("/refundFailed/thrown")).status >= 500, "a handler that throws");
      checkEqual(await left(), "1", "all were refunded");
      checkEqual(await statuses(2, "/refundFailed/200"), [200, 429], "a successful request is charged");
    },
  },
  {
    title: "refunds successful requests with refundIf: succeeded, as for a login",
    routes: {
      refundOk: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(2, "refund-ok")), refundIf: "succeeded" }],
        handle: (path) => ({ status: Number(path.split("/")[2]) }),
      }),
    },
    async drive({ statuses }) {
      checkEqual(await statuses(5, "/refundOk/200"), times(5, 200), "successes");
      checkEqual(await statuses(3, "/refundOk/401"), [401, 401, 429], "failures");
    },
  },
  {
    title: "counts redirects as failures, and refunds what the handler reports (issue 30)",
    routes: {
      refundRedirect: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(2, "refund-redirect")), refundIf: "succeeded" }],
        handle: redirect,
      }),
      refundReported: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(2, "refund-reported")), refundIf: "reported" }],
        handle: redirect,
      }),
    },
    async drive({ statuses }) {
      // A refund may be made just after the response, so a request that follows may be denied for a moment.
      const allowed = async (path: string) => {
        for (let tries = 0; tries < 200; tries++) {
          const [status] = await statuses(1, path);
          if (status !== 429) return status;
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
        return 429;
      };
      for (const name of ["refundRedirect", "refundReported"]) {
        for (let i = 0; i < 5; i++) checkEqual(await allowed(`/${name}/right/303`), 303, `${name}: a success`);
        for (let i = 0; i < 2; i++) checkEqual(await allowed(`/${name}/wrong/302`), 302, `${name}: a failure`);
        checkEqual(await statuses(3, `/${name}/wrong/302`), [429, 429, 429], `${name}: after two failures`);
      }
      checkEqual(await statuses(1, "/refundReported/wrong/200"), [429], "a form that is rendered again");
    },
  },
  {
    title: "does not refund a failed request whose client disconnected early (issue 13)",
    routes: {
      abandoned: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(2, "abandoned")), refundIf: "failed" }],
        handle: failWhenAbandoned,
      }),
      abandonedOutcome: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(9, "abandoned-outcome")), refundIf: throwOutcome }],
        handle: failWhenAbandoned,
      }),
    },
    async drive({ send, until, statuses }) {
      const abandon = async (name: string, count: number) => {
        const leaver = new AbortController();
        const left = send(`/${name}/wait`, { signal: leaver.signal }).catch(() => "left");
        await until(name, `request ${count}`, ({ handled }) => handled === count);
        leaver.abort();
        checkEqual(await left, "left", `request ${count}`);
      };
      await abandon("abandoned", 1);
      await abandon("abandoned", 2);
      await abandon("abandonedOutcome", 1);
      const { errors } = await until("abandonedOutcome", "the outcome", ({ errors }) => errors.length === 1);
      checkEqual(errors, ["aborted: true"], "the outcome");
      checkEqual(await statuses(1, "/abandoned"), [429], "both were charged");
    },
  },
];

/** A login that answers with the status in the path, and reports what it accepts. */
function redirect(path: string, _: unknown, decision: RequestDecision | undefined): object {
  const [, , password, status] = path.split("/");
  if (password === "right") decision?.succeeded?.();
  return { status: Number(status), headers: { Location: "/" }, body: "" };
}

/** A handler that passes its signal on, so it throws when the client disconnects. */
async function failWhenAbandoned(path: string, disconnected: PromiseLike<unknown> | undefined): Promise<object> {
  if (!path.endsWith("/wait")) return {};
  await disconnected;
  throw new Error("This operation was aborted");
}

/** Throws the outcome, because errors of `refundIf` are logged. */
function throwOutcome({ aborted }: RequestOutcome): never {
  throw new Error(`aborted: ${aborted}`);
}
