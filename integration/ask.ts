/** Asks over HTTP as `fetch` can't: a path as it is spelled, from an address of one's choice, with any header. */
import { type Agent, type OutgoingHttpHeaders, request } from "node:http";
import { text } from "node:stream/consumers";

export interface Asked {
  readonly status: number;
  readonly body: string;
  header(name: string): string | undefined;
}

export interface Asking {
  method?: string;
  headers?: OutgoingHttpHeaders;
  /** Where the connection comes from: any address of `127.0.0.0/8`. */
  from?: string;
  /** Keeps connections for many requests. Default: each has one of its own. */
  agent?: Agent;
}

/** Sends one request. */
export function ask(url: string, path: string, asking: Asking = {}): Promise<Asked> {
  const { hostname, port } = new URL(url);
  const { method = "GET", headers = {}, from, agent = false } = asking;
  return new Promise((resolve, reject) => {
    const options = { hostname, port, path, method, headers, agent, ...(from && { localAddress: from }) };
    const sent = request(options, (response) => {
      text(response).then(
        (body) =>
          resolve({
            status: response.statusCode ?? 0,
            body,
            header: (name) => response.headers[name.toLowerCase()]?.toString(),
          }),
        reject,
      );
    });
    sent.once("error", reject);
    sent.end();
  });
}
