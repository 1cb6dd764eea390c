/** The application on the `ws` package. */
import { createServer } from "node:http";
import { WebSocketServer } from "ws";
import { guardWs } from "../../../dist/ws.js";
import { listening, room } from "./on-node.js";
import { userOf } from "./room.js";

const { options, journal, handle, respond } = room;
const server = createServer(({ url }, response) => response.end(respond(url)));
const wss = new WebSocketServer({ server });
const guard = guardWs(wss, { ...options, data: (request) => userOf(request.url) });
wss.on("connection", (socket, request) => {
  journal.open++;
  socket.on("close", () => journal.open--);
  const connection = guard.attach(socket, request, (frame) =>
    handle(frame, (data) => {
      connection.data = data;
    }),
  );
});
server.listen(0, "127.0.0.1", () => listening(server.address().port));
