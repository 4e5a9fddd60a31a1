/** The page that people see where a host renders none: one document, without script and without anything from elsewhere. */
import { createHash } from 'node:crypto';
import type { PageForm, PageView } from './page-view.js';

// The colours are those of the browser, light or dark as the person prefers.
const STYLE = `
:root { color-scheme: light dark; --line: color-mix(in srgb, CanvasText 25%, Canvas); --accent: light-dark(#1d4fc4, #93b4ff) }
body { box-sizing: border-box; max-width: 32rem; margin: 8vh auto; padding: 1rem; background: Canvas; color: CanvasText; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { margin: 0; font-size: 1.5rem; line-height: 1.25 }
ul { margin: 1.5rem 0; padding: 0; list-style: none }
li { margin: .5rem 0 }
a { color: var(--accent) }
button { font: inherit; color: inherit; cursor: pointer; border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; background: none; overflow-wrap: anywhere }
.choose button { width: 100%; text-align: start }
a:focus-visible, button:hover, button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
`;

/**
 * The `Content-Security-Policy` of our page. Without `form-action`: Chromium applies it to the redirects that follow a form, and those of
 * a logout may lead to the provider.
 */
export function pagePolicy(mayBeFramed: boolean): string {
  const style = `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`;
  const policy = ["default-src 'none'", style, "base-uri 'none'"];
  return [...policy, ...(mayBeFramed ? [] : ["frame-ancestors 'none'"])].join('; ');
}

/**
 * Text for the content of an element, or for the value of an attribute in quotes.
 *
 * @example
 * return `<h1>Booth ${escapeHtml(exhibitor.name)}</h1>`;
 */
export function escapeHtml(value: unknown): string {
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}

export function htmlPage(view: PageView): string {
  const { title, text, loginUrl, accountUrl, logout, homeUrl, exhibitors, form } = view;
  const links: [url: string | undefined, words: string][] = [
    [accountUrl, 'Use another account'],
    [loginUrl, 'Log in again'],
  ];
  const items = [
    ...links.map(([url, words]) => (url === undefined ? '' : linkTo(url, words))),
    logout === undefined ? '' : formOf(logout, '<button>Log out</button>'),
    linkTo(homeUrl, 'Go to the start page'),
  ];
  // The `meta` of the referrer replaces the header `no-referrer`, after which browsers send `Origin: null` with the forms of the page: one
  // that sends no `Sec-Fetch-Site` is known by its `Origin`.
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="same-origin">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(text)}</p>
${form === undefined ? '' : formOf(form, listOf((exhibitors ?? []).map(buttonOf)), ' class="choose"')}
${listOf(items.filter(Boolean))}
</main>
</body>
</html>
`;
}

const listOf = (items: readonly string[]): string =>
  `<ul>\n${items.map((item) => `<li>${item}</li>`).join('\n')}\n</ul>`;

const linkTo = (url: string, words: string): string => `<a href="${escapeHtml(url)}">${words}</a>`;

/** A name may be written from right to left. */
const buttonOf = ({ id, label }: { id: string; label: string }): string =>
  `<button name="exhibitorId" value="${escapeHtml(id)}" dir="auto">${escapeHtml(label)}</button>`;

function formOf({ action, fields }: PageForm, content: string, attributes = ''): string {
  const hidden = Object.entries(fields).map(
    ([name, value]) => `<input type="hidden" name="${escapeHtml(name)}" value="${escapeHtml(value)}">`,
  );
  return `<form method="post" action="${escapeHtml(action)}"${attributes}>${hidden.join('')}${content}</form>`;
}
