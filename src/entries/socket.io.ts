/** `sluice/socket.io`: the guard for Socket.IO 4. */

export type { SocketIoRequest } from "../ws/socket-io/handshake.ts";
export {
  guardSocketIo,
  type SocketIoEvent,
  type SocketIoGuard,
  type SocketIoOptions,
  type SocketIoServer,
  type SocketIoSocket,
} from "../ws/socket-io/socket-io.ts";
