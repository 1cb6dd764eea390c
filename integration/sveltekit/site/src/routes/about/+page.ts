/** A page that is rendered while the app is built. */
export const prerender = true;
