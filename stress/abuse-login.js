/**
 * An attack on a login form: 10 000 addresses guess the passwords of 1 000 accounts for ten minutes, while 100 people log in
 * to accounts under attack. The app has the preset `login` with penalties and a challenge; time is simulated.
 *
 * Each attempt of the attack is a request. 1 % of the addresses pay a service that solves challenges.
 */
import { memoryStore } from "sluice";
import { abuse, challenge } from "sluice/abuse";
import { getRateLimit, rateLimit } from "sluice/fetch";
import { defineRules, presets } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { randomFrom, seedOf } from "./random.js";
import { stepsOf } from "./steps.js";

const ADDRESSES = 10_000;
const ACCOUNTS = 1_000;
const PEOPLE = 100;
const ATTACK_MS = 10 * 60_000;
const FULL_GUESSES = 600_000;
/** Of this many addresses, one solves challenges. */
const SOLVERS = 100;

/** The number in a limit such as "50/h log". */
const countOf = (text) => Number(/^\d+/.exec(text)?.[0]);

export async function* abuseLogin() {
  const guesses = stepsOf(FULL_GUESSES);
  const seed = seedOf("SLUICE_SEED");
  const random = randomFrom(seed);
  const app = createApp();
  const people = createPeople(random);
  const start = performance.now();
  const attackers = new Attackers(app);
  let person = 0;
  for (let i = 0; i < guesses; i++) {
    const at = (i / guesses) * ATTACK_MS;
    app.clock.advance(Math.floor(at) - app.elapsed());
    while (people[person] && people[person].at <= at) await logIn(app, people[person++]);
    const address = random.whole(0, ADDRESSES - 1);
    await attackers.guess(address, `account-${random.whole(0, ACCOUNTS - 1)}`);
  }
  for (; people[person]; person++) await logIn(app, people[person]);
  const seconds = ((performance.now() - start) / 1000).toFixed(0);

  const { limits } = presets.login;
  const [perAccount, perPair] = [countOf(limits.account), countOf(limits["ip+account"])];
  const without = [...app.triesWithout.values()];
  const overBound = without.filter((count) => count > perAccount);
  const overPair = [...app.triesOfPair.values()].filter((count) => count > perPair);
  const most = Math.max(...without);
  const mostCleared = Math.max(0, ...app.triesCleared.values());
  const failures = [
    ...overBound.map((count) => `${count} tries at one account without a clearance, more than ${perAccount}`),
    ...overPair.map((count) => `${count} tries at one account from one address, more than ${perPair}`),
    ...people.flatMap(({ problems }) => problems),
    ...(app.errors.length > 0 ? [`errors: ${app.errors.slice(0, 3)}`] : []),
    // An attack that never meets the limit proves nothing.
    ...(guesses >= FULL_GUESSES / 10 && most < perAccount
      ? [`at most ${most} tries at one account: too few guesses`]
      : []),
  ];
  let blocked = 0;
  for (let i = 0; i < ADDRESSES; i++) if (attackers.wasBlocked.has(i)) blocked++;
  yield {
    claim: "a login form under attack",
    details: `${guesses} guesses from ${ADDRESSES} addresses at ${ACCOUNTS} accounts in 10 simulated minutes, seed ${seed}: ${app.tried} passwords were tried, at most ${most} per account without a clearance (bound ${perAccount}) and ${mostCleared} more with one (${perPair} per address); ${attackers.challenged} challenges shown to attackers and ${attackers.solved} solved, ${attackers.limited} requests got 429, ${blocked} addresses blocked; ${seconds} s`,
    failures: failures.map((failure) => `seed ${seed}: ${failure}`),
  };
  const challenged = people.filter(({ challenges }) => challenges > 0).length;
  const mistyped = people.filter(({ mistypes }) => mistypes).length;
  const limited = people.reduce((sum, person) => sum + person.limited, 0);
  const loggedIn = people.filter(({ isIn }) => isIn).length;
  yield {
    claim: "people log in meanwhile",
    details: `${loggedIn} of ${PEOPLE} logged in to accounts under attack, ${mistyped} after a typing error, ${challenged} after a challenge; ${limited} of their requests got 429`,
    failures: loggedIn === PEOPLE ? [] : [`seed ${seed}: ${PEOPLE - loggedIn} people could not log in`],
  };
}

/** The app: `POST /login`, where the right password is "right". */
function createApp() {
  const clock = fakeClock();
  const startAt = clock.now();
  const rules = defineRules(
    {
      rules: [{ name: "login", match: "POST /login", preset: "login" }],
      fallback: { preset: "anonymous" },
    },
    { store: memoryStore({ clock }) },
  );
  const tokens = new Set();
  const provider = {
    name: "stand-in",
    siteKey: "site",
    scriptUrl: "https://captcha.example/api.js",
    frameOrigin: "https://captcha.example",
    tokenField: "stand-in-response",
    /** Accepts each token once. */
    async verify(token) {
      const ok = token.startsWith("solution-") && !tokens.has(token);
      tokens.add(token);
      return { ok, codes: ok ? [] : ["timeout-or-duplicate"] };
    },
  };
  const app = {
    clock,
    elapsed: () => clock.now() - startAt,
    tried: 0,
    /** Passwords tried by attackers: by account without and with a clearance, and by address and account. */
    triesWithout: new Map(),
    triesCleared: new Map(),
    triesOfPair: new Map(),
    errors: [],
    solutions: 0,
  };
  const add = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
  const headerOf = (name) => (request) => request.headers.get(name) ?? undefined;
  const handler = rateLimit({
    rules,
    identity: { trustedProxies: 1, header: "x-client" },
    facts: { account: headerOf("x-account") },
    abuse: abuse({
      penalty: [{}, { per: "ip+account" }],
      challenge: challenge({ provider, secret: ["0123456789abcdef0123456789abcdef"] }),
    }),
    onError: (error) => void app.errors.push(String(error)),
  })((request) => {
    const [account, client] = [headerOf("x-account")(request), headerOf("x-client")(request)];
    if (headerOf("x-password")(request) === "right") {
      getRateLimit(request)?.succeeded?.();
      return new Response("welcome");
    }
    if (client.startsWith("10.")) {
      app.tried++;
      add(headerOf("sluice-clearance")(request) ? app.triesCleared : app.triesWithout, account);
      add(app.triesOfPair, `${client} ${account}`);
    }
    // As many forms do: the status does not tell a wrong password from a right one.
    return new Response("wrong");
  });
  app.post = (path, headers) => handler(new Request(`http://localhost${path}`, { method: "POST", headers }));
  /** Solves a challenge, and returns the clearance. */
  app.solve = async (headers) => {
    const token = `solution-${app.solutions++}`;
    const response = await handler(
      new Request("http://localhost/.sluice/clearance", {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify({ token }),
      }),
    );
    return response.headers.get("sluice-clearance") ?? undefined;
  };
  return app;
}

/** The attackers. */
class Attackers {
  challenged = 0;
  solved = 0;
  limited = 0;
  wasBlocked = new Set();
  clearances = new Map();

  constructor(app) {
    this.app = app;
  }

  async guess(index, account) {
    const address = `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
    const headers = { "x-client": address, "user-agent": "bot", "x-account": account, "x-password": "guess" };
    const clearance = this.clearances.get(index);
    const response = await this.app.post("/login", clearance ? { ...headers, "sluice-clearance": clearance } : headers);
    if (response.status === 429) {
      this.limited++;
      const { type } = await response.json();
      if (type.endsWith("abnormal-usage-detected")) this.wasBlocked.add(index);
    }
    if (response.status !== 403) return;
    this.challenged++;
    if (index % SOLVERS !== 0 || clearance) return;
    const solution = await this.app.solve(headers);
    if (!solution) return;
    this.solved++;
    this.clearances.set(index, solution);
  }
}

/** People who log in once, at any time of the attack. Some mistype first, and some share the address of an office. */
function createPeople(random) {
  const people = Array.from({ length: PEOPLE }, (_, i) => ({
    account: `account-${i}`,
    // Ten offices of four people; everyone else is at home.
    address: i < 40 ? `203.0.113.${i >> 2}` : `198.51.100.${i}`,
    at: random.whole(0, ATTACK_MS),
    mistypes: random.once(3),
    challenges: 0,
    limited: 0,
    isIn: false,
    problems: [],
  }));
  return people.sort((a, b) => a.at - b.at);
}

/** Logs in as a browser does: solves a challenge and submits the form again. */
async function logIn(app, person) {
  const headers = { "x-client": person.address, "user-agent": "browser", "x-account": person.account };
  let clearance = {};
  for (const password of person.mistypes ? ["wrnog", "right"] : ["right"]) {
    for (;;) {
      const response = await app.post("/login", { ...headers, ...clearance, "x-password": password });
      if (response.status === 429) {
        person.limited++;
        person.problems.push(`${person.account} got 429: ${await response.text()}`);
      }
      if (response.status !== 403) {
        person.isIn = (await response.text()) === "welcome";
        break;
      }
      person.challenges++;
      const solution = person.challenges < 3 ? await app.solve(headers) : undefined;
      if (!solution) {
        person.problems.push(`${person.account} could not solve its challenge`);
        break;
      }
      clearance = { "sluice-clearance": solution };
    }
  }
}
