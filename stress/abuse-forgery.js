/** Presents a million mutated clearances: none is accepted, and the old key of a rotation is accepted until it is removed. */
import { challenge, turnstile } from "../dist/abuse.js";
import { randomFrom, seedOf } from "./random.js";
import { stepsOf } from "./steps.js";

const MUTANTS = stepsOf(1_000_000);
const SEED = seedOf("SLUICE_SEED");
/** A new clearance after so many mutants of one. */
const MUTANTS_PER_CLEARANCE = 1000;
const [OLD, NEW] = ["the old key, which has at least 32 bytes", "the new key, which has at least 32 bytes"];
const CLIENT = {
  ip: "203.0.113.7",
  userAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0",
};
const ALLOWED = { allowed: true, policy: "verifications", limit: 1, remaining: 0, resetAfterMs: 1, nextAfterMs: 1 };

export async function* abuseForgery() {
  yield await forgeries();
  yield await rotation();
}

/** The handler of a challenge with these keys, whose provider accepts every token. */
function handlerWith(...secret) {
  const provider = turnstile({ siteKey: "site-key", secret: "secret" });
  const accepting = { ...provider, verify: async () => ({ ok: true, codes: [] }) };
  return challenge({ provider: accepting, secret })[Symbol.for("sluice.challenge")];
}

function requestOf(clearance, { ip, userAgent } = CLIENT, asCookie = false) {
  const headers = {
    "user-agent": userAgent,
    [asCookie ? "cookie" : "sluice-clearance"]: asCookie ? `__Host-sluice-clearance=${clearance}` : clearance,
  };
  return { method: "GET", path: "/", ip, header: (name) => headers[name], countVerification: () => ALLOWED };
}

async function issue(handler, client = CLIENT) {
  const { set } = await handler.verify("token", requestOf(undefined, client));
  return set["Sluice-Clearance"];
}

async function forgeries() {
  const start = performance.now();
  const random = randomFrom(SEED);
  const handler = handlerWith(NEW, OLD);
  const foreign = handlerWith("a key of someone else, of at least 32 bytes");
  const sources = {
    old: await issue(handlerWith(OLD)),
    network: await issue(handler, { ...CLIENT, ip: "198.51.100.1" }),
    agent: await issue(handler, { ...CLIENT, userAgent: "curl/8" }),
    foreign: await issue(foreign),
    other: await issue(handler),
  };
  const failures = [];
  const counts = Object.fromEntries(MUTATIONS.map(({ name }) => [name, 0]));
  let [clearance, presented] = ["", 0];
  for (let i = 0; presented < MUTANTS; i++) {
    if (i % MUTANTS_PER_CLEARANCE === 0) {
      clearance = await issue(handler);
      // The clearance itself is valid, so it is the mutation that is refused.
      const id = clearance.split(".")[3];
      for (const asCookie of [false, true]) {
        if (handler.clearanceOf(requestOf(clearance, CLIENT, asCookie)) !== id) failures.push("a clearance is refused");
      }
    }
    const { name, mutate } = MUTATIONS[i % MUTATIONS.length];
    const mutant = mutate(clearance, random, sources);
    if (mutant === clearance || mutant === sources.other || mutant === sources.old) continue;
    counts[name]++;
    presented++;
    // A semicolon ends the cookie, so what is before it may be the clearance.
    const asCookie = random.once(2) && !mutant.includes(";");
    if (handler.clearanceOf(requestOf(mutant, CLIENT, asCookie)) !== undefined) {
      failures.push(`${name}: ${mutant} is accepted (seed ${SEED})`);
    }
  }
  for (const [name, count] of Object.entries(counts)) if (count === 0) failures.push(`no mutant by ${name}`);
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  return {
    claim: "forged clearances",
    details: `${presented} mutants of ${MUTATIONS.length} kinds, ${failures.length} accepted; seed ${SEED}; ${seconds} s`,
    failures,
  };
}

/** Every way to change a clearance. */
const MUTATIONS = [
  { name: "a flipped bit", mutate: flipBit },
  { name: "several flipped bits", mutate: (text, random) => flipBit(flipBit(flipBit(text, random), random), random) },
  { name: "a changed signature", mutate: (text, random) => changePart(text, 5, (part) => otherHex(part, random)) },
  { name: "a random signature", mutate: (text, random) => changePart(text, 5, (part) => hex(part.length, random)) },
  { name: "a changed binding", mutate: (text, random) => changePart(text, 4, (part) => otherHex(part, random)) },
  { name: "another id", mutate: (text, random) => changePart(text, 3, (part) => hex(part.length, random)) },
  {
    name: "another expiry",
    mutate: (text, random) => changePart(text, 2, (part) => String(Number(part) + random.whole(1, 10 ** 10))),
  },
  {
    name: "another key id",
    mutate: (text, random, { old }) => changePart(text, 1, () => partOf(random.once(2) ? old : hex(8, random), 1)),
  },
  { name: "swapped parts", mutate: swapParts },
  { name: "parts of another clearance", mutate: mixParts },
  {
    name: "a clearance of another client",
    mutate: (_text, random, sources) => random.pick([sources.network, sources.agent]),
  },
  { name: "a clearance of another key", mutate: (_text, _random, sources) => sources.foreign },
  { name: "a shorter text", mutate: (text, random) => text.slice(0, random.whole(0, text.length - 1)) },
  { name: "a text without its start", mutate: (text, random) => text.slice(random.whole(1, text.length)) },
  { name: "a removed character", mutate: (text, random) => splice(text, random.whole(0, text.length - 1), 1, "") },
  {
    name: "an added character",
    mutate: (text, random) => splice(text, random.whole(0, text.length), 0, random.pick(CHARACTERS)),
  },
  {
    name: "a replaced character",
    mutate: (text, random) => splice(text, random.whole(0, text.length - 1), 1, random.pick(CHARACTERS)),
  },
  { name: "another case", mutate: (text, random) => upperCase(text, random) },
  { name: "another spelling", mutate: (text, random) => random.pick(SPELLINGS)(text) },
  { name: "Unicode digits", mutate: unicodeDigit },
  {
    name: "repeated text",
    mutate: (text, random) => random.pick([`${text}${text}`, `${text},${text}`, `${text}.${partOf(text, 5)}`]),
  },
  { name: "base64", mutate: (text) => changePart(text, 5, (part) => Buffer.from(part, "hex").toString("base64url")) },
];

const CHARACTERS = [..."0123456789abcdefABCDEF.v -_=+/%;,\"'\\\0\n\t", "é", "１", "а", "😀", "\ud800", "\u200b"];
const SPELLINGS = [
  (text) => text.replace(/\.1/, ".01"),
  (text) => text.replace(/\.1/, ".+1"),
  (text) => text.replace(/\.(\d{13})\./, ".$1.0."),
  (text) => text.replace(/\.(\d{10})(\d{3})\./, ".$1.$2e3."),
  (text) => text.replace(/\.(\d{13})\./, (_, expiry) => `.0x${Number(expiry).toString(16)}.`),
  (text) => text.replaceAll(".", "%2e"),
  (text) => text.replace("v1", "V1"),
  (text) => text.replace("v1", "v01"),
  (text) => `"${text}"`,
  (text) => ` ${text}`,
  (text) => `${text} `,
  (text) => `${text}\n`,
  (text) => `${text}=`,
  (text) => `${text}.`,
  (text) => encodeURIComponent(`${text}\0`),
  () => "",
];

const partOf = (text, i) => text.split(".")[i] ?? text;
const hex = (length, random) => Array.from({ length }, () => random.whole(0, 15).toString(16)).join("");
const splice = (text, at, removed, added) => text.slice(0, at) + added + text.slice(at + removed);

function changePart(text, i, change) {
  return text
    .split(".")
    .map((part, at) => (at === i ? change(part) : part))
    .join(".");
}

function otherHex(part, random) {
  const at = random.whole(0, part.length - 1);
  return splice(part, at, 1, ((Number.parseInt(part[at], 16) + random.whole(1, 15)) % 16).toString(16));
}

function flipBit(text, random) {
  const at = random.whole(0, text.length - 1);
  return splice(text, at, 1, String.fromCharCode(text.charCodeAt(at) ^ (1 << random.whole(0, 7))));
}

function swapParts(text, random) {
  const parts = text.split(".");
  const [a, b] = [random.whole(0, 5), random.whole(0, 5)];
  [parts[a], parts[b]] = [parts[b], parts[a]];
  return parts.join(".");
}

/** At least one part of this clearance and one of another. */
function mixParts(text, random, sources) {
  const other = random.pick(Object.values(sources)).split(".");
  return text
    .split(".")
    .map((part, i) => (random.once(2) ? part : other[i]))
    .join(".");
}

function upperCase(text, random) {
  const letters = [...text].flatMap((character, i) => (/[a-f]/.test(character) ? [i] : []));
  const at = random.pick(letters);
  return splice(text, at, 1, text[at].toUpperCase());
}

/** Digits of other scripts, which `Number` and `\d` don't read but people do. */
function unicodeDigit(text, random) {
  const digits = [...text].flatMap((character, i) => (/[0-9]/.test(character) ? [i] : []));
  const at = random.pick(digits);
  return splice(text, at, 1, String.fromCodePoint(random.pick([0xff10, 0x660, 0x966]) + Number(text[at])));
}

/** A rotation in three steps, as a site deploys them. */
async function rotation() {
  const failures = [];
  const [before, during, after] = [handlerWith(OLD), handlerWith(NEW, OLD), handlerWith(NEW)];
  const [oldClearance, newClearance] = [await issue(before), await issue(during)];
  const expected = [
    ["before", before, true, false],
    ["during", during, true, true],
    ["after", after, false, true],
  ];
  for (const [when, handler, acceptsOld, acceptsNew] of expected) {
    if ((handler.clearanceOf(requestOf(oldClearance)) !== undefined) !== acceptsOld) failures.push(`old key ${when}`);
    if ((handler.clearanceOf(requestOf(newClearance)) !== undefined) !== acceptsNew) failures.push(`new key ${when}`);
  }
  return { claim: "rotation of keys", details: "the old key is accepted until it is removed", failures };
}
