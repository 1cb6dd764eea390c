/** The published JSON Schema of rules, compiled. */
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";

/** The schema. */
export const schema = JSON.parse(readFileSync(new URL("../../rules.schema.json", import.meta.url), "utf8"));

/** Validates a file. `validate.errors` has all errors of the last call. */
export const validate = new Ajv2020({ allErrors: true, strict: true }).compile(schema);
