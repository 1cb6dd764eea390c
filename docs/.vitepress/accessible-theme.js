/**
 * Corrects the default theme of VitePress 1.6 for keyboards and screen readers: groups of the sidebar are one button instead of two
 * nested ones, headings are none, the Space key works, and the name of the search button is its visible text.
 */

/** @type {Record<string, [before: string, after: string][]>} */
const CHANGES = {
  "VPSidebarItem.vue": [
    ["(isLink.value ? undefined : 'button')", "(isLink.value || !collapsible.value ? undefined : 'button')"],
    [
      "if ('key' in e && e.key !== 'Enter') {\n    return\n  }",
      "if ('key' in e) {\n    if (e.key !== 'Enter' && e.key !== ' ') return\n    e.preventDefault()\n  }",
    ],
    [':tabindex="item.items && 0"', ':tabindex="itemRole && 0" :aria-expanded="itemRole && !collapsed"'],
    [
      'class="caret"\n        role="button"\n        aria-label="toggle section"',
      `class="caret"
        :role="item.link ? 'button' : undefined"
        :aria-label="item.link ? 'Toggle ' + item.text : undefined"
        :aria-expanded="item.link ? !collapsed : undefined"`,
    ],
    [
      '@keydown.enter="onCaretClick"\n        tabindex="0"',
      '@keydown.enter="onCaretClick"\n        :tabindex="item.link && 0"',
    ],
  ],
  "VPNavBarSearchButton.vue": [
    [` :aria-label="translate('button.buttonAriaLabel')"`, ""],
    ['<span class="DocSearch-Button-Keys">', '<span class="DocSearch-Button-Keys" aria-hidden="true">'],
  ],
};

/** The plugin for Vite. Another version of the theme, in which a text is missing, fails the build. */
export function accessibleTheme() {
  return {
    name: "accessible-theme",
    enforce: /** @type {const} */ ("pre"),
    /**
     * @param {string} code
     * @param {string} id
     */
    transform(code, id) {
      const changes = CHANGES[/\/theme-default\/components\/(\w+\.vue)$/.exec(id)?.[1] ?? ""];
      if (!changes) return undefined;
      return changes.reduce((text, [before, after]) => {
        if (!text.includes(before)) throw new Error(`${id} does not contain ${before}`);
        return text.replace(before, after);
      }, code);
    },
  };
}
