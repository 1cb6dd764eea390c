/** A Worker for tests: every request runs one task, `POST /name` with its input as JSON. */

/** The tasks of a Worker by name. Their input is typed by each task and not checked. */
export type Tasks<Env> = Record<string, (env: Env, input: never) => unknown>;

/** Creates a Worker. The error of a task is its response. */
export function workerOf<Env>(tasks: Tasks<Env>): { fetch(request: Request, env: Env): Promise<Response> } {
  return {
    async fetch(request, env) {
      const task = tasks[new URL(request.url).pathname.slice(1)];
      if (!task) return new Response("unknown task", { status: 404 });
      try {
        return Response.json((await task(env, (await request.json()) as never)) ?? null);
      } catch (error) {
        return new Response(String((error as Error)?.stack ?? error), { status: 500 });
      }
    },
  };
}

/** Returns the message of the error that a call throws. */
export async function errorOf(call: () => unknown): Promise<string> {
  try {
    return `no error, but ${JSON.stringify(await call())}`;
  } catch (error) {
    return (error as Error).message;
  }
}
