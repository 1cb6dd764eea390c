/** What `rateLimit` says where there are no sockets, and nobody named who stands in front. */
import { SluiceError } from "sluice";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";

/** Made while the script loads, as an app does. */
const said = [limitFetch, limitHono].map((rateLimit) => {
  try {
    rateLimit({ policy: "5/m" });
    return { code: "none", message: "it was made" };
  } catch (error) {
    return error instanceof SluiceError
      ? { code: error.code, message: error.message }
      : { code: "", message: `${error}` };
  }
});

// With a key or an identity it is made.
limitFetch({ policy: "5/m", key: () => "k" });
limitHono({ policy: "5/m", identity: "cloudflare" });

export default { fetch: () => Response.json(said) };
