/** Sends the login form with fetch, and shows a challenge in the page. Without this script, the form is posted. */

/** @typedef {{ siteKey: string; action: string }} Challenge */
/** @typedef {{ render(box: Element, options: object): string; remove(id: string): void }} Turnstile */

const find = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (document.querySelector(selector));
const page = /** @type {Window & { turnstile?: Turnstile }} */ (window);
const form = /** @type {HTMLFormElement} */ (find("#login"));
const button = /** @type {HTMLButtonElement} */ (find("#login button"));
/** @type {Challenge | undefined} the challenge that was sent last */
let challenge;
/** @type {string | undefined} the id of the widget that is shown */
let widget;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void logIn();
});

/** Sends the form, with the token of a solved challenge if there is one. */
async function logIn(/** @type {string | undefined} */ token = undefined) {
  show("");
  hideChallenge();
  button.disabled = true;
  const response = await fetch(form.action, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { "Sluice-Challenge-Token": token }) },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  }).catch(() => undefined);
  if (response?.ok) return location.assign("/");
  button.disabled = false;
  if (!response) return show("No connection. Try again.");
  if (response.status === 429) return wait(Number(response.headers.get("Retry-After") ?? 60));
  if (response.status === 401) {
    show("Wrong email or password.");
    return find("#password").focus();
  }
  if (response.headers.get("Sluice-Mitigated") === "challenge") {
    challenge = (await response.json()).challenge;
    return showChallenge();
  }
  // A token is refused if it is old or was used before.
  if (response.status === 403 && challenge) return showChallenge("The check was not accepted. Try again.");
  show("Something went wrong. Try again later.");
}

/** Shows the widget. Its token is sent with the form again. */
async function showChallenge(message = "") {
  const turnstile = await loadWidget().catch(() => undefined);
  if (!turnstile) return show("The check could not be loaded. Check your content blockers, then try again.");
  show(message);
  button.hidden = true;
  find("#challenge").hidden = false;
  find("#challenge").focus();
  const { siteKey: sitekey, action } = /** @type {Challenge} */ (challenge);
  const callback = (/** @type {string} */ token) => void logIn(token);
  widget = turnstile.render(find("#widget"), { sitekey, action, callback, size: "flexible" });
}

function hideChallenge() {
  if (widget !== undefined) page.turnstile?.remove(widget);
  widget = undefined;
  find("#challenge").hidden = true;
  button.hidden = false;
}

/** Loads the widget script when it is first needed. @returns {Promise<Turnstile>} */
function loadWidget() {
  return new Promise((resolve, reject) => {
    if (page.turnstile) return resolve(page.turnstile);
    const script = document.createElement("script");
    script.src = form.dataset.widget ?? "";
    script.onload = () => resolve(/** @type {Turnstile} */ (page.turnstile));
    script.onerror = reject;
    document.head.append(script);
  });
}

/** Counts down on the button, which screen readers don't announce every second. */
function wait(/** @type {number} */ seconds) {
  const end = Date.now() + seconds * 1000;
  const label = button.textContent;
  show(`Too many attempts. Try again after ${new Date(end).toLocaleTimeString([], { timeStyle: "short" })}.`);
  button.disabled = true;
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    button.disabled = left > 0;
    button.textContent =
      left > 0 ? `Try again in ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : label;
    if (left > 0) setTimeout(tick, 500);
    else show("");
  };
  tick();
}

function show(/** @type {string} */ message) {
  find("#status").textContent = message;
}
