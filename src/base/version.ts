/** The version of the package. `npm run docs` writes it, and test/package.test.ts compares it with package.json. */
export const VERSION = "0.1.0";
