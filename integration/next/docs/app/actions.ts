"use server";

/** The Server Action of docs/middleware/next.md. */
import { headers } from "next/headers";
import { limitAction } from "sluice/next";
import { identity } from "../identity";

const limitedSend = limitAction(
  {
    policy: "2/h",
    headers,
    identity,
    onLimited: () => "Try again later.",
  },
  async (form: FormData) => `Sent: ${form.get("text")}`,
);

export async function send(_previous: string, form: FormData) {
  return limitedSend(form);
}
