/** Runs the contract suite inside a Worker. */
import { memoryRateLimiter } from "sluice";
import { runContractSuite } from "./contract-suite.js";

// Created while the module loads, where a Worker has neither a clock nor random numbers.
const limiterAtStartup = memoryRateLimiter({ capacity: 2, tokensPerSecond: "2/1h" });

export default {
  async fetch() {
    const allowed = [1, 2, 3].map(() => limiterAtStartup.consumeSync("k".repeat(300)).allowed);
    return Response.json({ ...(await runContractSuite()), allowed });
  },
};
