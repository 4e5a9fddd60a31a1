import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParsedUrlQuery } from 'node:querystring';
import type * as OidcProvider from 'oidc-provider';
import { PAGE_HEADERS, renderLoginPage, renderNotice } from './login-page.js';
import { LOGIN_PATH } from '../server/operations.js';
import type { SandboxState } from '../sandbox-state.js';
import { tenantOfClient, type SandboxSeed, type SeedPerson } from '../seed/seed.js';
import { sendReply } from '../server/send-reply.js';

/**
 * Shows the login page (GET), or passes the choice of the person to the identity provider (POST).
 *
 * @param form of the body
 */
export async function handleLogin(
  provider: OidcProvider.Provider,
  { seed, signedInAs }: SandboxState,
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
    if (signedInAs) {
      return logIn(provider, request, response, signedInAs);
    }
    const { client_id: clientId, tenantId } = interaction.params;
    const tenant = tenantName(seed, tenantId, clientId);
    const action = `${LOGIN_PATH}/${interaction.uid}`;
    return sendReply(response, 200, PAGE_HEADERS, renderLoginPage(action, tenant, seed.people));
  }
  if (form['cancel'] !== undefined) {
    const denied = { error: 'access_denied', error_description: 'The sign-in was cancelled' };
    return provider.interactionFinished(request, response, denied, { mergeWithLastSubmission: false });
  }
  const person = seed.people.find(({ sub }) => sub === form['person']);
  if (!person) {
    return sendBadRequest(response, 'No person was chosen', 'Go back and choose one of the people listed.');
  }
  return logIn(provider, request, response, person);
}

async function logIn(
  provider: OidcProvider.Provider,
  request: IncomingMessage,
  response: ServerResponse,
  { sub }: SeedPerson,
): Promise<void> {
  const { cookies } = provider.createContext(request, response);
  const session = await provider.Session.find(cookies.get(provider.cookieName('session')) ?? '');
  // `oidc-provider` ends the session of another person with a self-submitting form, which requires scripts. If the session
  // has already ended, it continues without the form.
  if (session && session.accountId !== sub) {
    await session.destroy();
  }
  await provider.interactionFinished(request, response, { login: { accountId: sub, amr: ['sandbox'] } });
}

/** Name of the tenant that `tenantId` selects (branding), or that the client belongs to. */
function tenantName(seed: SandboxSeed, tenantId: unknown, clientId: unknown): string {
  const branded = seed.tenants.find((candidate) => candidate.tenantId === tenantId);
  const tenant = branded ?? tenantOfClient(seed, clientId);
  return tenant?.name ?? 'Exhibitor Sandbox';
}

function sendBadRequest(response: ServerResponse, title: string, text: string): void {
  sendReply(response, 400, PAGE_HEADERS, renderNotice(title, text));
}

/** Grants every scope: the sandbox does not ask for consent. */
export async function createGrant(
  context: OidcProvider.KoaContextWithOIDC,
): Promise<OidcProvider.Grant | undefined> {
  const { session, client, provider } = context.oidc;
  if (!session?.accountId || !client) {
    return undefined;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: client.clientId });
  grant.addOIDCScope('openid profile email');
  await grant.save();
  return grant;
}

/**
 * The URL of the login page for an authorization request. It detaches the
 * interaction from the browser session: otherwise `oidc-provider` rejects the interaction if another person has logged
 * in meanwhile in another tab.
 */
export async function loginPageUrl(
  _context: unknown,
  interaction: OidcProvider.Interaction,
): Promise<string> {
  interaction.session = undefined;
  await interaction.persist();
  return `${LOGIN_PATH}/${interaction.uid}`;
}

/** The default policy of `oidc-provider`, with a login prompt if `signInAs` selects another person than the session. */
export function createLoginPolicy(oidc: typeof OidcProvider, state: SandboxState) {
  const { Check, base } = oidc.interactionPolicy;
  const prompts = base();
  prompts.get('login')?.checks.add(
    new Check('signed_in_as', 'the sandbox logs in another person', ({ oidc: { session, result } }) => {
      const person = state.signedInAs;
      return person !== undefined && session?.accountId !== person.sub && !result?.login
        ? Check.REQUEST_PROMPT
        : Check.NO_NEED_TO_PROMPT;
    }),
  );
  return prompts;
}
