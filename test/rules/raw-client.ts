/** Sends request targets byte by byte, without the normalisation of HTTP clients. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** A response as it was received. */
export interface RawResponse {
  readonly status: number;
  /** Head and body. */
  readonly text: string;
  header(name: string): string | undefined;
}

/** One connection, which is kept alive and opened again when the server has closed it. */
export class RawClient {
  private readonly port: number;
  private socket: Socket | undefined;

  constructor(port: number) {
    this.port = port;
  }

  /** Returns the body of a 200 response, or `undefined` for any other. */
  async get(target: string): Promise<string | undefined> {
    const { status, text } = await this.send(target);
    return status === 200 ? text.slice(text.indexOf("\r\n\r\n") + 4) : undefined;
  }

  /** Sends a GET request. The status is 0 if the server has closed the connection without a response. */
  async send(target: string): Promise<RawResponse> {
    const socket = this.socket?.writable ? this.socket : await this.open();
    socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`, "latin1");
    const text = await readResponse(socket);
    const hasEnded = !/^HTTP\/1\.1 \d+/.test(text) || /^connection: close/im.test(text);
    if (hasEnded) this.close();
    const head = text.slice(0, text.indexOf("\r\n\r\n") + 2);
    return {
      status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0),
      text,
      header: (name) => new RegExp(`^${name}: (.*)\r$`, "im").exec(head)?.[1],
    };
  }

  close(): void {
    this.socket?.destroy();
    this.socket = undefined;
  }

  private async open(): Promise<Socket> {
    this.socket = connect(this.port, "127.0.0.1");
    this.socket.setEncoding("latin1").on("error", () => {});
    await once(this.socket, "connect");
    return this.socket;
  }
}

/** Reads until the response is complete or the connection ends. */
function readResponse(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const onData = (chunk: string) => {
      text += chunk;
      if (isComplete(text)) end();
    };
    const end = () => {
      socket.off("data", onData).off("close", end);
      resolve(text);
    };
    socket.on("data", onData).on("close", end);
  });
}

function isComplete(text: string): boolean {
  const head = text.indexOf("\r\n\r\n");
  if (head === -1) return false;
  const length = /^content-length: (\d+)/im.exec(text.slice(0, head))?.[1];
  if (length !== undefined) return text.length >= head + 4 + Number(length);
  return /^transfer-encoding: chunked/im.test(text.slice(0, head)) ? text.endsWith("0\r\n\r\n") : false;
}
