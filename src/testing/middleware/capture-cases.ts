/** Cases about responses that an extension captures: what it receives, and when the response is sent. */
import type { ResponseCapture } from "../../middleware/gate/extension.ts";
import { captureResponse } from "../../middleware/hosts/capture.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import type { Client } from "./client.ts";
import { extended, streamOf } from "./extension-cases.ts";
import type { PlainResponse, RouteOptions, RoutePlan } from "./guarded-route.ts";
import { waitingRoom } from "./hold-cases.ts";

const MAX_BYTES = 1000;
/** How long storing a response takes, in ms: longer than a client needs for another request. */
const STORING_MS = 50;

/** A captured response as the routes report it. */
interface Report {
  status?: number;
  own?: string;
  cookies?: string[];
  body?: number[];
  missing?: string;
  fields: boolean;
}

const OWN = { "X-Own": "yes", "Set-Cookie": ["own=1; Path=/", "own=2; Path=/"] };
const RESPONSES: Record<string, () => Partial<PlainResponse>> = {
  text: () => ({ body: "text" }),
  bytes: () => ({ body: new Uint8Array([0, 255, 128]) }),
  stream: () => ({ body: streamOf("a", "", "b") }),
  sized: () => ({ headers: { ...OWN, "Content-Length": "2" }, body: streamOf("a", "b") }),
  empty: () => ({ status: 204, body: "" }),
  unchanged: () => ({ status: 304, body: "" }),
  failed: () => ({ status: 500, body: "failed" }),
  longest: () => ({ body: "x".repeat(MAX_BYTES) }),
};
const LONG = "x".repeat(5 * MAX_BYTES);

/** A route that captures its responses. A request to `/captured` below it returns them. */
function capturing(options: RouteOptions, handle: NonNullable<RoutePlan["handle"]>): RoutePlan {
  const reports: Report[] = [];
  const capture = (): ResponseCapture =>
    captureResponse({
      maxBytes: MAX_BYTES,
      async complete({ status, headers, body, missing }) {
        if (missing === undefined) await new Promise((resolve) => setTimeout(resolve, STORING_MS));
        reports.push({
          ...(status === undefined ? {} : { status }),
          ...(headers["x-own"] === undefined ? {} : { own: String(headers["x-own"]) }),
          ...(headers["set-cookie"] === undefined ? {} : { cookies: [headers["set-cookie"]].flat() }),
          ...(body === undefined ? {} : { body: [...body] }),
          ...(missing === undefined ? {} : { missing }),
          fields: headers.ratelimit !== undefined,
        });
      },
    });
  return {
    rateLimits: [
      extended(options, ({ path }) => {
        if (!path.endsWith("/captured")) return { capture: capture() };
        return { status: 200, headers: { "Content-Type": "application/json" }, body: JSON.stringify(reports) };
      }),
    ],
    handle,
  };
}

/** The responses that a route has captured. */
async function captured({ send }: Client, route: string): Promise<Report[]> {
  return JSON.parse((await send(`/${route}/captured`)).text) as Report[];
}

/** Waits until a route has captured a number of responses. */
async function untilCaptured(client: Client, route: string, count: number): Promise<Report[]> {
  for (let i = 0; i < 200; i++) {
    const reports = await captured(client, route);
    if (reports.length >= count) return reports;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${route} never captured ${count} responses`);
}

const bytesOf = (body: PlainResponse["body"]): number[] =>
  typeof body === "string" ? [...new TextEncoder().encode(body)] : body instanceof Uint8Array ? [...body] : [97, 98];

export const captureCases: readonly MiddlewareCase[] = [
  {
    title: "captures a response, and sends its end when it is stored",
    routes: {
      captured: ({ limiter }) =>
        capturing({ limiter: limiter(slow(99, "captured")) }, (path) => {
          const response = RESPONSES[path.split("/")[2] ?? ""]?.() ?? {};
          return { ...response, headers: { ...OWN, ...response.headers } };
        }),
    },
    async drive(client) {
      for (const [name, response] of Object.entries(RESPONSES)) {
        const { status = 200, body = "" } = response();
        for (const method of ["GET", "HEAD"]) {
          const bytes = method === "HEAD" ? [] : bytesOf(body);
          const sent = await client.send(`/captured/${name}`, { method });
          checkEqual([sent.status, [...sent.bytes]], [status, bytes], `${method} ${name}`);
          check(status === 304 || sent.header("RateLimit") !== null, `${method} ${name} has RateLimit fields`);
          const report = { status, own: "yes", cookies: OWN["Set-Cookie"], body: bytes, fields: false };
          checkEqual((await captured(client, "captured")).pop(), report, `captured: ${method} ${name}`);
        }
      }
    },
  },
  {
    title: "sends a captured stream as it is produced",
    routes: {
      capturedLive: ({ limiter }) => {
        const room = waitingRoom();
        return capturing({ limiter: limiter(slow(99, "captured-live")) }, (path) => {
          if (path.endsWith("/go")) room.open();
          if (!path.includes("/live")) return {};
          const encoder = new TextEncoder();
          const body = new ReadableStream({
            start: (controller) => controller.enqueue(encoder.encode(path.endsWith("/long") ? LONG : "first")),
            async pull(controller) {
              await room.wait();
              controller.enqueue(encoder.encode("last"));
              controller.close();
            },
          });
          // nginx would buffer the response.
          return { headers: { "X-Accel-Buffering": "no" }, body };
        });
      },
    },
    async drive(client) {
      for (const [path, first, count] of [
        ["/capturedLive/live", "first", 0],
        ["/capturedLive/live/long", LONG, 3],
      ] as const) {
        const response = await client.open(path);
        const reader = (response.body as ReadableStream<Uint8Array>).getReader();
        const decoder = new TextDecoder();
        let text = "";
        while (text.length < first.length) text += decoder.decode((await reader.read()).value, { stream: true });
        checkEqual(text, first, "the first part");
        const before = await untilCaptured(client, "capturedLive", count);
        checkEqual(before.length, count, "captured before the end");
        if (count > 0) checkEqual(before.pop()?.missing, "too-long", "a response that is too long");
        await client.send("/capturedLive/go");
        for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value);
        checkEqual(text, `${first}last`, "the whole");
        const bodies = (await captured(client, "capturedLive")).map(({ body }) => body?.length);
        if (count === 0) check(bodies.includes(9), `captured after the end: ${JSON.stringify(bodies)}`);
      }
    },
  },
  {
    title: "sends a response unchanged that is too long to be captured",
    routes: {
      capturedLong: ({ limiter }) =>
        capturing({ limiter: limiter(slow(99, "captured-long")) }, (path) => ({
          body: path.endsWith("/stream") ? streamOf(...new Array<string>(5).fill("x".repeat(MAX_BYTES))) : LONG,
        })),
    },
    async drive(client) {
      for (const path of ["/capturedLong", "/capturedLong/stream"]) {
        const { status, text } = await client.send(path);
        checkEqual([status, text === LONG], [200, true], path);
        const report = (await captured(client, "capturedLong")).pop();
        checkEqual([report?.status, report?.body, report?.missing], [200, undefined, "too-long"], `captured: ${path}`);
      }
    },
  },
  {
    title: "captures the response to a client that has disconnected",
    routes: {
      capturedLeft: ({ limiter }) =>
        capturing({ limiter: limiter(slow(99, "captured-left")) }, async (_path, disconnected) => {
          await disconnected;
          return { body: "too late" };
        }),
    },
    async drive(client) {
      const leaver = new AbortController();
      const left = client.send("/capturedLeft", { signal: leaver.signal }).catch(() => "left");
      await client.until("capturedLeft", "the request", ({ handled }) => handled === 1);
      leaver.abort();
      checkEqual(await left, "left", "the client");
      const [report] = await untilCaptured(client, "capturedLeft", 1);
      checkEqual([report?.status, report?.body], [200, bytesOf("too late")], "captured");
    },
  },
  {
    title: "captures rejections, errors of the handler, and requests whose limit could not be checked",
    routes: {
      capturedRejected: ({ limiter }) => capturing({ limiter: limiter(slow(1, "captured-rejected")) }, () => ({})),
      capturedThrown: ({ limiter }) =>
        capturing({ limiter: limiter(slow(9, "captured-thrown")) }, () => {
          throw new Error("on purpose");
        }),
      capturedUnchecked: ({ broken }) =>
        capturing({ limiter: broken({ onStoreError: "throw" }), onError: () => "allow" }, () => ({ body: "allowed" })),
    },
    async drive(client) {
      checkEqual(await client.statuses(2, "/capturedRejected"), [200, 429], "the limit");
      const rejected = await captured(client, "capturedRejected");
      checkEqual(
        rejected.map(({ status }) => status),
        [200, 429],
        "captured: a rejection",
      );
      checkEqual((await client.send("/capturedThrown")).status, 500, "a handler that throws");
      const [thrown] = await untilCaptured(client, "capturedThrown", 1);
      check(thrown?.status === 500 || thrown?.missing === "failed", `captured: an error: ${JSON.stringify(thrown)}`);
      checkEqual((await client.send("/capturedUnchecked")).text, "allowed", "an error that is allowed");
      checkEqual((await captured(client, "capturedUnchecked"))[0]?.body, bytesOf("allowed"), "captured: allowed");
    },
  },
];
