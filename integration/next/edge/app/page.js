export const dynamic = "force-dynamic";

export default function Page() {
  return (
    <main>
      {Array.from({ length: 20 }, (_, i) => (
        <img key={i} src={`/img/${i + 1}.svg`} alt="" />
      ))}
    </main>
  );
}
