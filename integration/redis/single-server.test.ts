/** All clients on a single redis-server. */
import { testTopology } from "./test-topology.ts";

testTopology("single server");
