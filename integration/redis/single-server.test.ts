/** The kit on a single redis-server, with every client. */
import { certify } from "./certify.ts";

certify("single server");
