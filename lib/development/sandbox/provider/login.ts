import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParsedUrlQuery } from 'node:querystring';
import type { Grant, Interaction, KoaContextWithOIDC, Provider } from 'oidc-provider';
import { PAGE_HEADERS, renderLoginPage, renderNotice } from './login-page.js';
import { LOGIN_PATH } from '../server/operations.js';
import type { SandboxState } from '../sandbox-state.js';
import { tenantOfClient, type SandboxSeed } from '../seed/seed.js';
import { sendReply } from '../server/sandbox-server.js';

/** Shows the login page (GET), or passes the choice of the person in the form to the identity provider (POST). */
export async function handleLogin(
  provider: Provider,
  seed: SandboxSeed,
  request: IncomingMessage,
  response: ServerResponse,
  form: ParsedUrlQuery,
): Promise<void> {
  const interaction = await provider.interactionDetails(request, response).catch(() => undefined);
  if (!interaction) {
    return sendBadRequest(response, 'This sign-in is over', 'Go back to the application.');
  }
  if (interaction.prompt.name === 'consent') {
    return provider.interactionFinished(request, response, { consent: {} });
  }
  if (request.method === 'GET') {
    const { client_id: clientId, tenantId } = interaction.params;
    // `tenantId` selects the brand.
    const branded = seed.tenants.find((candidate) => candidate.tenantId === tenantId);
    const name = (branded ?? tenantOfClient(seed, clientId))?.name ?? 'Exhibitor Sandbox';
    const action = `${LOGIN_PATH}/${interaction.uid}`;
    return sendReply(response, 200, PAGE_HEADERS, renderLoginPage(action, name, seed.people));
  }
  if (form['cancel'] !== undefined) {
    const denied = { error: 'access_denied', error_description: 'The sign-in was cancelled' };
    return provider.interactionFinished(request, response, denied, { mergeWithLastSubmission: false });
  }
  const person = seed.people.find(({ sub }) => sub === form['person']);
  if (!person) {
    return sendBadRequest(response, 'No person was chosen', 'Go back and choose one of the people listed.');
  }
  const { cookies } = provider.createContext(request, response);
  const session = await provider.Session.find(cookies.get(provider.cookieName('session')) ?? '');
  // `oidc-provider` ends the session of another person with a self-submitting form, which requires scripts. If the session
  // has already ended, it continues without the form.
  if (session && session.accountId !== person.sub) {
    await session.destroy();
  }
  await provider.interactionFinished(request, response, { login: loginOf(person.sub) });
}

function loginOf(accountId: string) {
  return { accountId, amr: ['sandbox'] };
}

function sendBadRequest(response: ServerResponse, title: string, text: string): void {
  sendReply(response, 400, PAGE_HEADERS, renderNotice(title, text));
}

/** With `signInAs`, an authorization request has a new session of that person. So it is answered at once, without a page. */
export function extendSessions(provider: Provider, state: SandboxState): void {
  const { Session } = provider;
  const get = Session.get.bind(Session);
  Session.get = async (context) => {
    if (state.signedInAs === undefined || context['oidc'].route !== 'authorization') {
      return get(context);
    }
    // `prompt`, and 0 as `max_age`, would ask for a page. With a `max_age`, the ID token has the time of the login.
    const { prompt: _, max_age: maxAge, ...query } = context.query;
    context.query = maxAge === undefined ? query : { ...query, max_age: '60' };
    const session = new Session();
    session.loginAccount(loginOf(state.signedInAs.sub));
    context['oidc'].entity('Session', session);
    return session;
  };
}

/** Grants every scope: the sandbox does not ask for consent. */
export async function createGrant({ oidc }: KoaContextWithOIDC): Promise<Grant | undefined> {
  const { session, client, provider } = oidc;
  if (!session?.accountId || !client) {
    return undefined;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: client.clientId });
  grant.addOIDCScope('openid profile email');
  await grant.save();
  return grant;
}

/**
 * The URL of the login page for an authorization request. It detaches the interaction from the browser session: otherwise
 * `oidc-provider` rejects the interaction if another person has logged in meanwhile in another tab.
 */
export async function loginPageUrl(_context: unknown, interaction: Interaction): Promise<string> {
  interaction.session = undefined;
  await interaction.persist();
  return `${LOGIN_PATH}/${interaction.uid}`;
}
