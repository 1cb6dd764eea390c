/** All clients on Redis Sentinel. */
import { testTopology } from "./test-topology.ts";

testTopology("Sentinel");
