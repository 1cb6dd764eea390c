import { certify } from "./certify.ts";

certify("Sentinel");
