import { createHash } from 'node:crypto';
import type { SeedPerson } from './seed.js';

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2433; --dim: #5b6475; --line: #d8dde6; --card: #fff; --back: #f3f5f9; --accent: #2456d6 }
@media (prefers-color-scheme: dark) { :root { --ink: #eef1f7; --dim: #a3acbd; --line: #353d4d; --card: #1c2230; --back: #12161f; --accent: #7ea2ff } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { width: 100%; max-width: 27rem; padding: 1.5rem 2rem; background: var(--card); border: 1px solid var(--line); border-radius: 14px; box-shadow: 0 10px 30px #0000000f }
h1 { margin: 0 0 .25rem; font-size: 1.4rem } p { margin: .25rem 0 1rem; color: var(--dim) }
.tenant { margin: 0 0 .75rem; color: var(--accent); font-weight: 600 }
.people { display: grid; gap: .5rem }
button { width: 100%; padding: .4rem 1rem; border: 1px solid var(--line); border-radius: 10px; background: none; color: inherit; font: inherit; text-align: left; cursor: pointer }
button:hover, button:focus-visible { border-color: var(--accent); outline: 1px solid var(--accent) }
button small { display: block; color: var(--dim) }
.cancel { margin-top: .5rem; border-color: transparent; text-align: center; color: var(--dim) }
.note { margin: 1rem 0 0; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .85rem }
`;

/** No `form-action`: Chromium applies it to the redirect back to the application as well. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; ` +
    "img-src data:; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** What the sign-in page shows. */
export interface LoginPage {
  /** Where the page posts the choice to. */
  readonly action: string;
  /** The tenant whose brand is shown. */
  readonly tenant: string;
  readonly people: readonly SeedPerson[];
}

/** The sign-in page: one button a person, and Cancel. */
export function renderLoginPage({ action, tenant, people }: LoginPage): string {
  const buttons = people.map(
    ({ sub, name, email, emailVerified }) =>
      html`<button name="person" value="${sub}">
        ${name}<small
          >${email ?? 'no e-mail address'}${`${emailVerified}` === 'false' ? ', not verified' : ''}</small
        >
      </button>`,
  );
  return page(
    'Sign in',
    html`<p class="tenant">${tenant}</p>
      <h1>Sign in</h1>
      <p>Choose who you want to be.</p>
      <form method="post" action="${action}">
        <div class="people">${buttons}</div>
        <button class="cancel" name="cancel" value="yes">Cancel</button>
      </form>`,
  );
}

/** A page that only says something, for requests that cannot go on. */
export function renderNotice(title: string, text: string): string {
  return page(
    title,
    html`<h1>${title}</h1>
      <p>${text}</p>`,
  );
}

function page(title: string, content: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} – Exhibitor Sandbox</title>
        <link rel="icon" href="data:," />
        ${new Html(`<style>${STYLE}</style>`)}
      </head>
      <body>
        <main>
          ${content}
          <p class="note">Exhibitor Sandbox, for development only: no passwords, and nobody here is real.</p>
        </main>
      </body>
    </html>`.source;
}

/** Markup that is safe to send. Everything else put into {@link html} is escaped. */
class Html {
  constructor(readonly source: string) {}
}

function html(parts: TemplateStringsArray, ...values: readonly (string | Html | readonly Html[])[]): Html {
  return new Html(
    parts.map((part, index) => part + (index < values.length ? show(values[index]) : '')).join(''),
  );
}

function show(value: string | Html | readonly Html[] | undefined): string {
  if (value instanceof Html) {
    return value.source;
  }
  if (typeof value === 'object') {
    return value.map(({ source }) => source).join('');
  }
  return escape(value ?? '');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
