/** Requests and responses of `node:http` without a network. */

const CLIENTS = 1000;
const TENANTS = 100;

export class StubRequest {
  method = "GET";
  complete = true;

  constructor(i, url) {
    this.url = url;
    this.headers = { host: "localhost", "x-tenant": `t${i % TENANTS}`, "x-account": `a${i % CLIENTS}` };
    this.socket = { remoteAddress: `10.0.${(i >> 8) & 3}.${i & 255}` };
  }
}

export class StubResponse {
  headersSent = false;
  writableEnded = false;
  statusCode = 200;
  headers = {};

  getHeader(name) {
    return this.headers[name];
  }

  setHeader(name, value) {
    this.headers[name] = value;
    return this;
  }

  removeHeader(name) {
    delete this.headers[name];
  }

  writeHead(status) {
    this.statusCode = status;
    this.headersSent = true;
    return this;
  }

  end() {
    if (!this.headersSent) this.writeHead(this.statusCode);
    this.writableEnded = true;
    return this;
  }
}
