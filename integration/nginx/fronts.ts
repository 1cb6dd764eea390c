/** nginx configurations that report the address of a client, with the matching `identity` options. */
import type { RouteOptions } from "sluice/testing";
import type { NginxOptions } from "../../test/servers/nginx.js";

/** An nginx configuration and the identities that match it. */
export interface Front {
  readonly nginx: Omit<NginxOptions, "to">;
  readonly identities: readonly NonNullable<RouteOptions["identity"]>[];
}

// One address only: the clients of these tests use other addresses of 127.0.0.0/8.
const trustedProxies = ["127.0.0.1"];

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
const PAIR = `${TOKEN}=(?:${TOKEN}|${QUOTED})`;
const ELEMENT = `(?:${PAIR})?(?:;(?:${PAIR})?)*`;
/** A client's value that nginx appends to: valid by RFC 7239. */
const WELL_FORMED = `^[ ,]*${ELEMENT}(?: *, *${ELEMENT})*$`.replace(/["\\]/g, String.raw`\$&`);

/** The element that nginx adds, and the field with it. `when` matches the values that it is appended to. */
const forwarded = (when: string) => `
  map $remote_addr $own_element {
    ~^[0-9.]+$ "for=$remote_addr";
    ~: "for=\\"[$remote_addr]\\"";
    default "for=unknown";
  }
  map $http_forwarded $with_own_element {
    "" $own_element;
    ${when} "$http_forwarded, $own_element";
    default $own_element;
  }`;

const FORWARDED = { set: { Forwarded: "$with_own_element" } };
const READ_FORWARDED = { header: "forwarded", trustedProxies };

export const fronts: Readonly<Record<string, Front>> = {
  "X-Real-IP": {
    nginx: { set: { "X-Real-IP": "$remote_addr" } },
    identities: [
      { preset: "nginx", trustedProxies },
      { preset: "nginx", trustedProxies: 1 },
    ],
  },
  "X-Forwarded-For": {
    nginx: { set: { "X-Forwarded-For": "$proxy_add_x_forwarded_for" } },
    identities: [{ trustedProxies }, { trustedProxies: 1 }],
  },
  Forwarded: {
    nginx: { ...FORWARDED, http: forwarded(`"~${WELL_FORMED}"`) },
    identities: [READ_FORWARDED, { ...READ_FORWARDED, trustedProxies: 1 }],
  },
  // Without validation: an open quote of the client precedes the element of nginx.
  "Forwarded, unchecked": {
    nginx: { ...FORWARDED, http: forwarded("~.") },
    identities: [READ_FORWARDED, { ...READ_FORWARDED, trustedProxies: 1 }],
  },
};
