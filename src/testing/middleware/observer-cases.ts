/** Cases about observers: every request and decision is counted once, with the rule and the method. */
import { createObserver, type Observer } from "../../observe/observer.ts";
import { loadRules } from "../../rules/define-rules.ts";
import { checkEqual } from "../check.ts";
import type { MiddlewareCase } from "./case.ts";
import type { Planner } from "./guarded-route.ts";

interface Observed {
  readonly observer: Observer;
  readonly events: string[];
}

/** The observer of an app, and what it has reported. */
const observers = new WeakMap<Planner, Observed>();

function observedBy(planner: Planner): Observed {
  let observed = observers.get(planner);
  if (!observed) {
    const events: string[] = [];
    const observer = createObserver();
    observer.on((event) => {
      if (event.type === "decision") events.push(`${event.method} ${event.route} ${event.rule} ${event.outcome}`);
    });
    observers.set(planner, (observed = { observer, events }));
  }
  return observed;
}

/** One line per request counter and decision counter. */
function linesOf({ observer }: Observed): string[] {
  return observer
    .metrics()
    .filter(({ name }) => name === "requests_total" || name === "decisions_total")
    .flatMap(({ name, samples }) =>
      samples.map(({ labels, value }) => `${name} ${labels.rule ?? labels.policy} ${labels.outcome} ${value}`),
    );
}

export const observerCases: readonly MiddlewareCase[] = [
  {
    title: "counts requests and decisions in an observer",
    routes: {
      observed: (planner) => ({
        rateLimits: [
          {
            rules: loadRules(
              {
                rules: [
                  { name: "observed", match: "/observed", limits: { ip: "2/d" } },
                  { name: "watched", match: "/observed/:id", mode: "shadow", limits: { ip: "1/d" } },
                ],
                fallback: { limits: { ip: "100/d" } },
              },
              { facts: [] },
            ),
            observer: observedBy(planner).observer,
          },
        ],
      }),
      "observer-report": (planner) => ({
        rateLimits: [],
        handle() {
          const observed = observedBy(planner);
          return { body: JSON.stringify({ lines: linesOf(observed), events: observed.events }) };
        },
      }),
    },
    async drive({ send, as, statuses }) {
      const headers = as("203.0.113.110");
      checkEqual(await statuses(4, "/observed", { headers }), [200, 200, 429, 429], "a rule");
      checkEqual(await statuses(3, "/observed/7", { headers }), [200, 200, 200], "a rule in shadow mode");
      const { lines, events } = JSON.parse((await send("/observer-report", { headers })).text);
      checkEqual(
        lines,
        [
          "requests_total observed allowed 2",
          "requests_total observed denied 2",
          "requests_total watched allowed 1",
          "requests_total watched would-deny 2",
          "decisions_total observed.ip allowed 2",
          "decisions_total observed.ip denied 2",
          "decisions_total watched.ip allowed 1",
          "decisions_total watched.ip would-deny 2",
        ],
        "the counters",
      );
      checkEqual(
        events,
        [
          "GET /observed observed allowed",
          "GET /observed observed allowed",
          "GET /observed observed denied",
          "GET /observed observed denied",
          "GET /observed/:id watched allowed",
          "GET /observed/:id watched would-deny",
          "GET /observed/:id watched would-deny",
        ],
        "the events",
      );
    },
  },
];
