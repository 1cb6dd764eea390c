/** All clients on Redis Cluster. */
import { testTopology } from "./test-topology.ts";

testTopology("Cluster");
