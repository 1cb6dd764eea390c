/** The kit behind Redis Sentinel, with every client. */
import { certify } from "./certify.ts";

certify("Sentinel");
