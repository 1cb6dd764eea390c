/** The application in a Durable Object with hibernating WebSockets. The journal is stored to survive hibernation. */
import { DurableObject } from "cloudflare:workers";
import { guardDurableObject } from "../../../dist/ws-durable-object.js";
import { roomOf, userOf } from "./room.js";

export class Room extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    const { options, journal, handle, respond } = roomOf(env.scenario);
    Object.assign(this, { journal, handle, respond, born: crypto.randomUUID() });
    ctx.blockConcurrencyWhile(async () => {
      Object.assign(journal, await ctx.storage.get("journal"));
    });
    this.guard = guardDurableObject(ctx, options);
  }

  async fetch(request) {
    if (request.headers.has("upgrade")) return this.guard.upgrade(request, { data: async () => userOf(request.url) });
    const sockets = this.ctx.getWebSockets().filter(({ readyState }) => readyState === WebSocket.OPEN);
    const attached = sockets.map((socket) => socket.deserializeAttachment());
    const journal = JSON.parse(this.respond(request.url));
    return Response.json({ ...journal, open: sockets.length, born: this.born, attached });
  }

  async webSocketMessage(socket, frame) {
    this.guard.message(socket, frame, (frame) => {
      // The application's attachment is kept beside that of the guard.
      const attached = socket.deserializeAttachment();
      const { replace } = JSON.parse(frame);
      socket.serializeAttachment(replace ?? { ...attached, seen: (attached.seen ?? 0) + 1 });
      return this.handle(frame, (data) => {
        this.guard.connection(socket).data = data;
      });
    });
    await this.ctx.storage.put("journal", this.journal);
  }

  webSocketClose(socket, code) {
    this.guard.close(socket);
    try {
      socket.close(code === 1005 || code === 1006 ? 1000 : code);
    } catch {
      // Already closed.
    }
  }

  webSocketError(socket) {
    this.guard.close(socket);
  }
}

export default {
  fetch: (request, env) => env.ROOM.get(env.ROOM.idFromName("room")).fetch(request),
};
