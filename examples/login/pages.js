/** The pages. They work without JavaScript; public/login.js makes the login page better. */

/**
 * The login page.
 * @param {{ scriptUrl: string }} provider
 * @param {{ email?: string; message?: string }} [last] what the last attempt was, if there was one
 */
export const loginPage = ({ scriptUrl }, { email = "", message = "" } = {}) =>
  page(
    "Log in",
    `<h1>Log in</h1>
<p class="soft">Enter your email and password.</p>
<form id="login" method="post" action="/login" data-widget="${escapeHtml(scriptUrl)}">
  <label for="email">Email</label>
  <input id="email" name="email" type="email" autocomplete="username" required value="${escapeHtml(email)}">
  <label for="password">Password</label>
  <input id="password" name="password" type="password" autocomplete="current-password" required>
  <p id="status" role="status">${escapeHtml(message)}</p>
  <div id="challenge" tabindex="-1" aria-labelledby="why" hidden>
    <p id="why">There were many failed logins for this account. Confirm that you are human to continue.</p>
    <div id="widget"></div>
  </div>
  <button>Log in</button>
</form>
<script src="/login.js" type="module"></script>`,
  );

/** The page after a login. */
export const accountPage = (/** @type {{ name: string; email: string }} */ { name, email }) =>
  page(
    "Your account",
    `<h1>Welcome, ${escapeHtml(name)}</h1>
<p class="soft">You are logged in as ${escapeHtml(email)}.</p>
<form method="post" action="/logout"><button>Log out</button></form>`,
  );

const page = (/** @type {string} */ title, /** @type {string} */ content) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Example</title>
<link rel="icon" href="/icon.svg">
<link rel="stylesheet" href="/login.css">
</head>
<body>
<main>
<img src="/icon.svg" alt="" width="40" height="40">
${content}
</main>
</body>
</html>
`;

function escapeHtml(/** @type {string} */ text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
