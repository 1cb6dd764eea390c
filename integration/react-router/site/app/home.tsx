/** A page with a loader that reads the decision. */
import { type LoaderFunctionArgs, useLoaderData } from "react-router";
import { getRateLimit } from "sluice/react-router";

export function loader(args: LoaderFunctionArgs) {
  return { remaining: getRateLimit(args)?.remaining };
}

export default function Home() {
  const { remaining } = useLoaderData<typeof loader>();
  return <p>remaining: {remaining}</p>;
}
