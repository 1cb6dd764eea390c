/** Every subpath that needs no other package. */
import * as algorithms from "sluice/algorithms";
import * as fetchHandlers from "sluice/fetch";
import * as http from "sluice/http";
import * as node from "sluice/node";
import * as redis from "sluice/redis";
import * as socketIo from "sluice/socket.io";
import * as testing from "sluice/testing";
import * as upstash from "sluice/upstash";
import * as ws from "sluice/ws";
import * as wsBun from "sluice/ws-bun";
import * as wsDeno from "sluice/ws-deno";
import * as wsDurableObject from "sluice/ws-durable-object";
import * as wsKit from "sluice/ws-kit";

export {
  algorithms,
  fetchHandlers,
  http,
  node,
  redis,
  socketIo,
  testing,
  upstash,
  ws,
  wsBun,
  wsDeno,
  wsDurableObject,
  wsKit,
};
