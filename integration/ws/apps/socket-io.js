/** The application on Socket.IO. A message is an event, and an invalid one is an event without a listener. */
import { createServer } from "node:http";
import { Server } from "socket.io";
import { guardSocketIo } from "../../../dist/socket.io.js";
import { listening, room } from "./on-node.js";
import { userOf } from "./room.js";

const { journal, handle, respond } = room;
const { typeOf: _, types: __, ...options } = room.options;
const server = createServer(({ url }, response) => response.end(respond(url)));
const io = new Server(server);
guardSocketIo(io, { ...options, data: (request) => userOf(request.url) });
io.on("connection", (socket) => {
  journal.open++;
  socket.on("disconnect", () => journal.open--);
  socket.on("say", (message) => handle(JSON.stringify(message), (data) => Object.assign(socket.data, data)));
});
server.listen(0, "127.0.0.1", () => listening(server.address().port));
