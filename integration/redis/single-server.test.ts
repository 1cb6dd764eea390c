import { certify } from "./certify.ts";

certify("single server");
