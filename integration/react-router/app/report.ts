/** Loaders that report their name and the target that the middleware has seen, for the tests of rules. */
export function reportAs(name: string): (args: { request: Request }) => Response {
  return ({ request: { url } }) => {
    const target = url.slice(url.indexOf("/", url.indexOf("//") + 2)).split("#", 1)[0] as string;
    return new Response("ok", { headers: { "X-Handler": name, "X-Target": encodeURIComponent(target) } });
  };
}
