/** Sends HTTP requests that `fetch` can't: a path as it is written, from a chosen local address, with any header. */
import { type Agent, type OutgoingHttpHeaders, request } from "node:http";
import { text } from "node:stream/consumers";

/** A response, read to its end. */
export interface ReceivedResponse {
  readonly status: number;
  readonly body: string;
  header(name: string): string | undefined;
}

export interface RequestSettings {
  method?: string;
  headers?: OutgoingHttpHeaders;
  /** The local address of the connection: any of `127.0.0.0/8`. */
  from?: string;
  /** Keeps connections open for several requests. Default: one connection per request. */
  agent?: Agent;
}

/** Sends one request. */
export function sendRequest(url: string, path: string, settings: RequestSettings = {}): Promise<ReceivedResponse> {
  const { hostname, port } = new URL(url);
  const { method = "GET", headers = {}, from, agent = false } = settings;
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
