/** The client of docs/middleware/trpc.md. */
import { createTRPCClient, httpBatchLink, TRPCClientError } from "@trpc/client";
import type { AppRouter } from "./app.ts";

export const clientOf = (url: string) => createTRPCClient<AppRouter>({ links: [httpBatchLink({ url })] });

export async function send(client: ReturnType<typeof clientOf>): Promise<string> {
  try {
    return await client.codes.send.mutate();
  } catch (error) {
    if (!(error instanceof TRPCClientError)) throw error;
    const { data } = error as TRPCClientError<AppRouter>;
    if (data?.code !== "TOO_MANY_REQUESTS") throw error;
    return `try again in ${Math.ceil((data.retryAfterMs ?? 0) / 60_000)} minutes`;
  }
}
