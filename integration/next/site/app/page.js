import { send, sent } from "./send.js";

export const dynamic = "force-dynamic";

export default async function Page() {
  const counts = await sent();
  return (
    <main>
      <p>
        sent {counts.sent}, limited {counts.limited}
      </p>
      <form action={send}>
        <button type="submit">Send</button>
      </form>
      {Array.from({ length: 20 }, (_, i) => (
        <img key={i} src={`/img/${i + 1}.svg`} alt="" />
      ))}
    </main>
  );
}
