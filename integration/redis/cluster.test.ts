/** The kit on Redis Cluster, with every client. */
import { certify } from "./certify.ts";

certify("Cluster");
