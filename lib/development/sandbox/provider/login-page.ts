import { escape, page, pageHeaders } from '../server/html-page.js';
import type { SeedPerson } from '../seed/seed.js';

/** Clicks the button, so that its value is sent. */
const SUBMIT = `document.querySelector('button[name="logout"]').click()`;

export const PAGE_HEADERS = pageHeaders(SUBMIT);

/** The login page, with the name of the tenant as the brand: one button for each person, and a Cancel button. */
export function renderLoginPage(action: string, tenant: string, people: readonly SeedPerson[]): string {
  const buttons = people.map(({ sub, name, email = 'no e-mail address', emailVerified }) => {
    const remark = String(emailVerified) === 'false' ? ', not verified' : '';
    return `<button name="person" value="${escape(sub)}">${escape(name)}<small>${escape(email)}${remark}</small></button>`;
  });
  return page(
    'Sign in',
    `<p class="tenant">${escape(tenant)}</p>
    <h1>Sign in</h1>
    <p>Choose the person to sign in as.</p>
    <form method="post" action="${escape(action)}">
      ${buttons.join('\n')}
      <button class="cancel" name="cancel" value="yes">Cancel</button>
    </form>`,
  );
}

/** For requests that cannot continue, and after a logout. */
export function renderNotice(title: string, text: string): string {
  return page(title, `<h1>${escape(title)}</h1><p>${escape(text)}</p>`);
}

/**
 * The logout page, around the trusted markup of a form with the id `op.logoutForm`. With an ID token of the person, the form submits
 * itself, as real providers then ask no question.
 */
export function renderLogoutPage(form: string, submitsItself: boolean): string {
  return page(
    'Sign out',
    `<h1>Sign out</h1>
    <p>This ends the session at the identity provider.</p>
    ${form}
    <button form="op.logoutForm" name="logout" value="yes">Sign out</button>
    <button class="cancel" form="op.logoutForm">Stay signed in</button>
    ${submitsItself ? `<script>${SUBMIT}</script>` : ''}`,
  );
}
