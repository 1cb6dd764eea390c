/** A page with a form that calls the Server Action. */
import { Message } from "./message.tsx";

export const dynamic = "force-dynamic";

export default function Page() {
  return <Message />;
}
