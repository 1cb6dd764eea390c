import { certify } from "./certify.ts";

certify("Cluster");
