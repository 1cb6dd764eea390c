/** The preset `login` in front of forms that answer a wrong password in different ways (issue 30). */
import { abuse } from "sluice/abuse";
import { getRateLimit, rateLimit } from "sluice/fetch";
import { defineRules } from "sluice/rules";
import { describe, expect, test } from "vitest";

/** A login form that answers wrong passwords with a status. `reports`: it reports correct ones. */
function form(wrong: number, reports = true) {
  const rules = defineRules({
    rules: [{ name: "login", match: "POST /login", preset: "login", action: { account: "flag" } }],
    fallback: "unlimited",
  });
  const checked: string[] = [];
  const handler = rateLimit({
    rules,
    abuse: abuse({ penalty: {} }),
    facts: { account: () => "ada" },
  })((request: Request, _environment: object) => {
    const password = request.headers.get("x-password") ?? "";
    checked.push(password);
    if (password !== "right") return new Response(null, { status: wrong, headers: { location: "/login" } });
    if (reports) getRateLimit(request)?.succeeded?.();
    return new Response(null, { status: 303, headers: { location: "/" } });
  });
  const login = async (password: string): Promise<number> => {
    const request = new Request("http://localhost/login", { method: "POST", headers: { "x-password": password } });
    return (await handler(request, { remoteAddr: { hostname: "203.0.113.7" } })).status;
  };
  return { login, checked };
}

describe("the preset login", () => {
  test.each([302, 303, 200, 401])("lets at most 5 of 1000 guesses reach the check if it answers %i", async (status) => {
    const { login, checked } = form(status);
    for (let i = 0; i < 1000; i++) await login(`guess ${i}`);
    expect(checked.length).toBe(5);
  });

  test("refunds logins that the handler reports, and no others", async () => {
    const { login, checked } = form(302);
    for (let i = 0; i < 50; i++) expect(await login("right")).toBe(303);
    for (let i = 0; i < 10; i++) await login("wrong");
    expect(checked.filter((password) => password === "wrong").length).toBe(5);
    const silent = form(302, false);
    for (let i = 0; i < 50; i++) await silent.login("right");
    expect(silent.checked.length).toBe(5);
  });
});
