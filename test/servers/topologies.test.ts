/** Tests crash and recovery of the cluster and the sentinel group. */
import { describe, expect, it } from "vitest";
import { withRedis } from "./needs.ts";
import { startCluster } from "./redis-cluster.js";
import { startSentinel } from "./redis-sentinel.js";

describe.concurrent("topologies", withRedis, () => {
  it("include a cluster that serves every slot, survives a crash and accepts the restarted node", async ({
    onTestFinished,
  }) => {
    const cluster = await startCluster();
    onTestFinished(cluster.stop);
    expect(cluster.ports).toHaveLength(6);
    const owners = await Promise.all([0, 5460, 5461, 10_922, 10_923, 16_383].map(cluster.masterOf));
    expect(new Set(owners).size).toBe(3);
    // The slot of "foo" is 12182, and the other nodes redirect to it.
    const master = await cluster.masterOf(12_182);
    expect(await master.call("SET", "foo", "bar")).toBe("OK");
    await expect((await cluster.masterOf(0)).call("GET", "foo")).rejects.toThrow(
      `MOVED 12182 127.0.0.1:${master.port}`,
    );
    expect(await cluster.callAll("DBSIZE")).toEqual(expect.arrayContaining([0, 0, 1]));
    expect(await master.call("WAIT", 1, 1000)).toBe(1);

    await master.kill();
    await cluster.settled();
    const heir = await cluster.masterOf(12_182);
    expect(heir).not.toBe(master);
    expect(await heir.call("GET", "foo")).toBe("bar");

    await master.restart();
    await cluster.settled();
    expect((await master.call("ROLE")) as unknown[]).toEqual([
      "slave",
      "127.0.0.1",
      heir.port,
      "connected",
      expect.any(Number),
    ]);
    expect(await cluster.masterOf(12_182)).toBe(heir);

    heir.pause();
    await cluster.settled();
    expect(await cluster.masterOf(12_182)).toBe(master);
    heir.resume();
    await cluster.settled();
    expect(await cluster.callAll("PING")).toEqual(["PONG", "PONG", "PONG"]);
  });

  it("include sentinels that agree and fail over on demand and after a crash", async ({ onTestFinished }) => {
    const watched = await startSentinel();
    onTestFinished(watched.stop);
    expect(watched.sentinels).toHaveLength(3);
    const first = await watched.master();
    await first.call("SET", "k", "v");
    expect(await first.call("WAIT", 1, 1000)).toBe(1);

    const second = await watched.failover();
    expect(second).not.toBe(first);
    expect(await watched.master()).toBe(second);
    expect(await second.call("GET", "k")).toBe("v");
    await watched.settled();
    await expect(first.call("SET", "k", "w")).rejects.toThrow("READONLY");

    await second.kill();
    await watched.settled();
    expect(await watched.master()).toBe(first);
    await second.restart();
    await watched.settled();
    expect(((await second.call("ROLE")) as unknown[])[0]).toBe("slave");
    await watched.watchers[0]?.kill();
    expect(await watched.master()).toBe(first);
    await watched.watchers[0]?.restart();
    await watched.settled();
  });
});
