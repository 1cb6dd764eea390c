/** The callbacks of the guard in a run of `ws-frames.js`: they fail at random, and check what they are called with. */
import { HEARTBEAT_TYPE } from "./ws-frame-pool.js";
import { InjectedCostError, InjectedError, RunWithStores } from "./ws-frames-stores.js";

const INVALID = "!invalid";
/** Error codes of an invalid key, cost or limiter. */
const COST_ERRORS = ["invalid-cost", "invalid-key", "invalid-limiter"];

/** The part of a run that the guard calls. */
export class RunWithCallbacks extends RunWithStores {
  typeOf(frame) {
    this.injectError(500);
    this.disconnectSometimes(1000);
    return this.settings.typeOf(frame);
  }

  validate(_frame, { id, type }) {
    if (type === INVALID) this.fail("validate was called with an invalid frame");
    this.injectError(60);
    const client = this.clients.get(id);
    if (this.random.once(500)) {
      this.disconnect(client, 1);
      return true;
    }
    return this.random.pick([true, true, undefined, 0, true, true, !this.random.once(10)]);
  }

  action({ id, retryAfterMs }) {
    this.injectError(60);
    if (this.random.once(200)) this.disconnect(this.clients.get(id), 0);
    if (this.random.once(60)) return /** @type {any} */ (this.random.pick(["nothing", undefined, {}, 1]));
    return retryAfterMs === null
      ? "send"
      : this.random.pick(["send", "custom", "send", "custom", this.random.once(20) ? "close" : "send"]);
  }

  exceeded({ id, type, action }) {
    const client = this.clients.get(id);
    if (!client) return this.fail(`onLimitExceeded for the unknown connection ${id}`);
    // Except for the current frame, if `onExceeded` has closed the connection.
    if (client.connection.closed && !client.disconnected) this.fail("onLimitExceeded after the close");
    if (type === "payload" && client.currentFrame && client.currentFrame.bytes <= this.maxBytes && !this.waits)
      this.fail(`${client.currentFrame.bytes} bytes were too many`);
    client.denied++;
    if (action === "close" || action === "ban") client.closes++;
    if (this.random.once(500)) this.disconnect(client, 0);
    return this.failSometimes(80);
  }

  invalid({ id }) {
    const client = this.clients.get(id);
    if (client.connection.closed) this.fail("found invalid after the close");
    client.invalid++;
    if (this.random.once(500)) this.disconnect(client, 0);
    return this.failSometimes(80);
  }

  onError(error) {
    if (error instanceof InjectedCostError || COST_ERRORS.includes(error?.code)) {
      if (!this.current.connection.closed) this.current.uncharged++;
      if (this.random.once(100)) this.disconnect(this.current, 0);
    } else if (
      !(error instanceof InjectedError) &&
      error?.code !== "invalid-option" &&
      error?.code !== "store-unavailable"
    )
      this.fail(`onError got ${error?.code} ${error?.stack ?? error}`);
    return this.failSometimes(100);
  }

  handled(client, sequence, entry, frame, ingress) {
    const { connection } = client;
    if (connection.closed) this.fail("handled after the close");
    if (sequence <= client.last) this.fail(`frame ${sequence} of ${client.id} handled after ${client.last}`);
    if (frame !== entry.frame) this.fail("the handled frame is not the received one");
    if (entry.bytes > this.maxBytes) this.fail(`${entry.bytes} bytes were handled`);
    const expected = this.expectedType(entry);
    if (ingress.type !== expected) this.fail(`handled as ${ingress.type}, it is ${expected}`);
    client.last = sequence;
    client.handled++;
    const isHeartbeat = ingress.type === HEARTBEAT_TYPE;
    (isHeartbeat ? client.heartbeats : client.frames).push({ atMs: ingress.receivedAt, cost: 1 });
    for (const { bucket, cost } of this.charged.get(ingress) ?? []) {
      const own = this.bucket(bucket);
      own.handled += cost;
      if (own.handled > own.granted) this.fail(`${own.handled} handled of ${own.granted} granted to ${bucket}`);
    }
    if (this.random.once(300)) this.disconnect(client, 0);
    this.injectError(100);
    if (!this.random.once(4)) return undefined;
    return new Promise((resolve, reject) => this.handling.push({ resolve, reject }));
  }

  expectedType({ type }) {
    const { typeOf, types } = this.settings;
    if (!typeOf) return "";
    return type !== undefined && (types === "any" || types.includes(type) || type === HEARTBEAT_TYPE) ? type : INVALID;
  }
}
