/** Returns the errors of `rateLimit` without `identity` on a runtime without sockets. */
import { SluiceError } from "sluice";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";

/** Created while the script loads, as in an app. */
const errors = [() => limitFetch({ policy: "5/m" }), () => limitHono({ policy: "5/m" })].map((create) => {
  try {
    create();
    return { code: "none", message: "no error" };
  } catch (error) {
    return error instanceof SluiceError
      ? { code: error.code, message: error.message }
      : { code: "", message: `${error}` };
  }
});

// With a key or an identity it does not throw.
limitFetch({ policy: "5/m", key: () => "k" });
limitHono({ policy: "5/m", identity: "cloudflare" });

export default { fetch: () => Response.json(errors) };
