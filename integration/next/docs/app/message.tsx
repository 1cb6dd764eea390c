"use client";

/** Sends a text, and shows the result of the action. */
import { useActionState } from "react";
import { send } from "./actions.ts";

export function Message() {
  const [result, action] = useActionState(send, "");
  return (
    <form action={action}>
      <input name="text" />
      <button type="submit">Send</button>
      <p>{result}</p>
    </form>
  );
}
