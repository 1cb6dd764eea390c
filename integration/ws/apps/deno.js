/** The application on `Deno.serve`. */
import { guardDeno } from "../../../dist/ws-deno.js";
import { listening, room } from "./on-node.js";
import { userOf } from "./room.js";

const { options, journal, handle, respond } = room;
const guard = guardDeno(options);
const handlers = {
  open: () => void journal.open++,
  close: () => void journal.open--,
  message: (socket, frame) =>
    handle(frame, (data) => {
      guard.connection(socket).data = data;
    }),
};
Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: ({ port }) => listening(port) }, (request, info) => {
  if (!request.headers.has("upgrade")) return new Response(respond(request.url));
  return guard.upgrade(request, info, handlers, { data: async () => userOf(request.url) });
});
