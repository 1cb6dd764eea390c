/** The application on `Bun.serve`. */
import { guardBun } from "../../../dist/ws-bun.js";
import { listening, room } from "./on-node.js";
import { userOf } from "./room.js";

const { options, journal, handle, respond } = room;
const guard = guardBun(options);
/** Includes values that can't be the data of a socket. */
const dataOf = (url) => {
  const data = new URL(url).searchParams.get("data");
  return data === "null" ? null : data === "text" ? "a text" : userOf(url);
};
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request, server) {
    if (!request.headers.has("upgrade")) return new Response(respond(request.url));
    return guard.upgrade(request, server, { data: () => dataOf(request.url) });
  },
  websocket: guard.websocket({
    open: () => void journal.open++,
    close: () => void journal.open--,
    message: (socket, frame) =>
      handle(frame, (data) => {
        socket.data = data;
      }),
  }),
});
listening(server.port);
