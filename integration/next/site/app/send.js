"use server";

import { headers } from "next/headers";
import { limitAction } from "sluice/next";

const counts = { sent: 0, limited: 0 };

export async function sent() {
  return counts;
}

const limitedSend = limitAction(
  {
    policy: "2/h",
    headers,
    identity: { preset: "nginx", trustedProxies: 1 },
    onLimited: () => void counts.limited++,
  },
  async () => void counts.sent++,
);

export async function send(form) {
  return limitedSend(form);
}
