import { createHash } from 'node:crypto';

// The colours are those of the browser, light or dark as the person prefers.
const STYLE = `
:root { color-scheme: light dark; --dim: color-mix(in srgb, CanvasText 65%, Canvas); --line: color-mix(in srgb, CanvasText 18%, Canvas); --accent: light-dark(#2257d4, #8cabff) }
body { box-sizing: border-box; max-width: 27rem; margin: 5vh auto; padding: 1rem; background: Canvas; color: CanvasText; font: 16px/1.5 system-ui, sans-serif }
h1 { margin: 0; font-size: 1.4rem }
p, small { color: var(--dim) } .tenant { color: var(--accent); font-weight: 600 }
button { display: block; width: 100%; margin: .5rem 0; padding: .5rem 1rem; border: 1px solid var(--line); border-radius: 10px; background: none; color: inherit; font: inherit; text-align: left; cursor: pointer }
button:hover, button:focus-visible { border-color: var(--accent); outline: 1px solid var(--accent) }
button small { display: block }
.cancel { border-color: transparent; text-align: center; color: var(--dim) }
footer { margin-top: 1.5rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--dim); font-size: .85rem }
`;

const digestOf = (source: string) => createHash('sha256').update(source).digest('base64');

/** Headers of a page with this script. Without `form-action`: Chromium applies it to redirects after a form too. */
export const pageHeaders = (script: string, style = ''): Readonly<Record<string, string>> => ({
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    `default-src 'none'; style-src 'sha256-${digestOf(STYLE + style)}'; script-src 'sha256-${digestOf(script)}'; ` +
    "connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
});

/** A page with trusted markup, and rules in addition to those of all pages. */
export function page(title: string, content: string, style = ''): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${escape(title)} – Exhibitor Sandbox</title>
    <link rel="icon" href="data:," />
    <style>${STYLE}${style}</style>
  </head>
  <body>
    <main>${content}</main>
    <footer>Exhibitor Sandbox, for development only: without passwords, all people are fictitious.</footer>
  </body>
</html>`;
}

/** Text as content, or as the value of an attribute in quotes. */
export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}
