/** Handlers that report their name and the target that the proxy has seen, for the tests of rules. */
export function reportAs(name) {
  return ({ url }) => {
    const target = url.slice(url.indexOf("/", url.indexOf("//") + 2)).split("#", 1)[0];
    return new Response("ok", { headers: { "X-Handler": name, "X-Target": encodeURIComponent(target) } });
  };
}
