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

/** Clicks the button, so that its value is sent. */
const SUBMIT = `document.querySelector('button[name="logout"]').click()`;

const digestOf = (source: string) => createHash('sha256').update(source).digest('base64');

/** Without `form-action`, because Chromium applies it also to the redirect to the application after the form. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    `default-src 'none'; style-src 'sha256-${digestOf(STYLE)}'; script-src 'sha256-${digestOf(SUBMIT)}'; ` +
    "img-src data:; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Content of the login page. */
export interface LoginPage {
  /** URL that the form is posted to. */
  readonly action: string;
  /** Name of the tenant, shown as the brand. */
  readonly tenant: string;
  readonly people: readonly SeedPerson[];
}

/** Renders the login page: one button for each person, and a Cancel button. */
export function renderLoginPage({ action, tenant, people }: LoginPage): string {
  const buttons = people.map(({ sub, name, email, emailVerified }) => {
    const address = email ?? 'no e-mail address';
    const remark = String(emailVerified) === 'false' ? ', not verified' : '';
    return html`<button name="person" value="${sub}">${name}<small>${address}${remark}</small></button>`;
  });
  return page(
    'Sign in',
    html`<p class="tenant">${tenant}</p>
      <h1>Sign in</h1>
      <p>Choose the person to sign in as.</p>
      <form method="post" action="${action}">
        <div class="people">${buttons}</div>
        <button class="cancel" name="cancel" value="yes">Cancel</button>
      </form>`,
  );
}

/** Renders a page with a title and a text, for requests that cannot continue. */
export function renderNotice(title: string, text: string): string {
  return page(
    title,
    html`<h1>${title}</h1>
      <p>${text}</p>`,
  );
}

/**
 * Renders the logout page. With an ID token of the person, the form submits itself, as real providers then ask no question.
 *
 * @param form trusted markup of the form, with the id `op.logoutForm`
 */
export function renderLogoutPage(form: string, submitsItself: boolean): string {
  return page(
    'Sign out',
    html`<h1>Sign out</h1>
      <p>This ends the session at the identity provider.</p>
      ${new Html(form)}
      <div class="people">
        <button form="op.logoutForm" name="logout" value="yes">Sign out</button>
        <button class="cancel" form="op.logoutForm">Stay signed in</button>
      </div>
      ${new Html(submitsItself ? `<script>${SUBMIT}</script>` : '')}`,
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
          <p class="note">
            Exhibitor Sandbox, for development only: without passwords, all people are fictitious.
          </p>
        </main>
      </body>
    </html>`.source;
}

/** Trusted markup. {@link html} escapes every other value. */
class Html {
  constructor(readonly source: string) {}
}

function html(parts: TemplateStringsArray, ...values: readonly (string | Html | readonly Html[])[]): Html {
  return new Html(
    parts.map((part, index) => part + (index < values.length ? markupOf(values[index]) : '')).join(''),
  );
}

function markupOf(value: string | Html | readonly Html[] | undefined): string {
  if (value instanceof Html) {
    return value.source;
  }
  if (typeof value === 'object') {
    return value.map(({ source }) => source).join('');
  }
  return escapeHtml(value ?? '');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
