import { dirname } from "node:path";

/** @type {import("next").NextConfig} */
export default { turbopack: { root: dirname(import.meta.dirname) } };
