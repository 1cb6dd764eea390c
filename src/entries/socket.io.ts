/** `sluice/socket.io`: the guard for Socket.IO 4. */
export type { SocketIoEvent, SocketIoSocket } from "../ws/socket-io/client.ts";
export type { SocketIoRequest } from "../ws/socket-io/handshake.ts";
export {
  guardSocketIo,
  type SocketIoGuard,
  type SocketIoOptions,
  type SocketIoServer,
} from "../ws/socket-io/socket-io.ts";
