/** A Worker for tests: every request is one task, `POST /name` with its input as JSON. */

/** What the tasks of a Worker do. The input is what the test sends, which has to fit. */
export type Tasks<Env> = Record<string, (env: Env, input: never) => unknown>;

/** The Worker that does them. What a task throws is told to the test. */
export function workerOf<Env>(tasks: Tasks<Env>): { fetch(request: Request, env: Env): Promise<Response> } {
  return {
    async fetch(request, env) {
      const task = tasks[new URL(request.url).pathname.slice(1)];
      if (!task) return new Response("no such task", { status: 404 });
      try {
        return Response.json((await task(env, (await request.json()) as never)) ?? null);
      } catch (error) {
        return new Response(String((error as Error)?.stack ?? error), { status: 500 });
      }
    },
  };
}

/** The error of a call, as a caller sees it. */
export async function errorOf(call: () => unknown): Promise<string> {
  try {
    return `no error, but ${JSON.stringify(await call())}`;
  } catch (error) {
    return (error as Error).message;
  }
}
