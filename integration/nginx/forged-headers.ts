/** Forged values of the headers in which proxies report a client's address. */
import { Agent } from "node:http";
import { sendRequest } from "../send-request.ts";

/** Variants of a value; `n` is different for every request. */
const SHAPES: readonly ((n: number) => string)[] = [
  (n) => `203.0.113.${n % 256}`,
  (n) => `203.0.113.${n % 256}, 198.51.100.${n % 256}`,
  (n) => `2001:db8:${n.toString(16)}::1`,
  (n) => `127.0.0.1, 10.0.0.${n % 256}`,
  (n) => `10.0.0.${n % 256}, 127.0.0.1`,
  () => "127.0.0.1",
  (n) => `for=203.0.113.${n % 256}`,
  (n) => `for=203.0.113.${n % 256}, for=127.0.0.1`,
  (n) => `for="[2001:db8:${n.toString(16)}::1]:443";proto=https`,
  (n) => `for="203.0.113.${n % 256}`,
  (n) => `for="203.0.113.${n % 256}, for=127.0.0.1`,
  (n) => `for="a, for=203.0.113.${n % 256}", for="`,
  (n) => `for=127.0.0.1;x="\\", for=203.0.113.${n % 256}`,
  (n) => `for=127.0.0.1;x="${n}\\`,
  (n) => `"203.0.113.${n % 256}", "`,
  (n) => `",${n},"`,
  (n) => `,,, ,203.0.113.${n % 256},`,
  (n) => `unknown, _hidden${n}`,
  (n) => `${"1.2.3.4, ".repeat(100)}203.0.113.${n % 256}`,
  (n) => `203.0.113.${n % 256}:${n}`,
  (n) => `::ffff:203.0.113.${n % 256}%eth0`,
];

const NAMES = ["X-Forwarded-For", "X-Real-IP", "Forwarded"];

/** The headers of the nth request; every third one sends two lines. */
function forgedHeaders(n: number): Record<string, string | string[]> {
  const value = (SHAPES[n % SHAPES.length] as (n: number) => string)(n);
  const again = (SHAPES[(n * 7 + 3) % SHAPES.length] as (n: number) => string)(n);
  return Object.fromEntries(NAMES.map((name) => [name, n % 3 === 0 ? [value, again] : value]));
}

/** Sends `count` requests with different forged headers from one address. Returns how often each status occurred. */
export async function sendForged(url: string, from: string, count: number): Promise<Record<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const statuses: Record<number, number> = {};
  await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const { status } = await sendRequest(url, "/", { from, agent, headers: forgedHeaders(n) });
      statuses[status] = (statuses[status] ?? 0) + 1;
    }),
  );
  agent.destroy();
  return statuses;
}
