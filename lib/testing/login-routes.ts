import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParsedUrlQuery } from 'node:querystring';
import { LOGIN_PATH, type Provider } from './identity-provider.js';
import { PAGE_HEADERS, renderLoginPage, renderNotice } from './login-page.js';
import type { SandboxSeed, SeedPerson } from './seed.js';

/** What the sign-in page needs beside the provider. */
export interface LoginSetting {
  readonly seed: SandboxSeed;
  readonly signedInAs: () => SeedPerson | undefined;
}

/** One visit of the sign-in page. */
export interface LoginVisit {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly form: ParsedUrlQuery;
}

/** Answers the sign-in page: shows it, takes the choice, and hands over to the provider. */
export async function answerLogin(
  provider: Provider,
  setting: LoginSetting,
  visit: LoginVisit,
): Promise<void> {
  const { request, response, form } = visit;
  const interaction = await provider.interactionDetails(request, response).catch(() => undefined);
  if (!interaction) {
    return send(
      response,
      400,
      renderNotice('This sign-in has expired', 'Go back to the application and start again.'),
    );
  }
  if (interaction.prompt.name === 'consent') {
    return provider.interactionFinished(request, response, { consent: {} });
  }
  const preset = setting.signedInAs();
  if (request.method === 'GET' && preset) {
    return signIn(provider, visit, preset);
  }
  if (request.method === 'GET') {
    const { client_id: clientId, tenantId } = interaction.params;
    const tenant = brandOf(setting.seed, tenantId, clientId);
    const action = `${LOGIN_PATH}/${interaction.uid}`;
    return send(response, 200, renderLoginPage({ action, tenant, people: setting.seed.people }));
  }
  if (form['cancel'] !== undefined) {
    const denied = { error: 'access_denied', error_description: 'The sign-in was cancelled' };
    return provider.interactionFinished(request, response, denied, { mergeWithLastSubmission: false });
  }
  const person = setting.seed.people.find(({ sub }) => sub === form['person']);
  if (!person) {
    return send(
      response,
      400,
      renderNotice('Nobody was chosen', 'Go back and choose one of the people listed.'),
    );
  }
  return signIn(provider, visit, person);
}

async function signIn(
  provider: Provider,
  { request, response }: LoginVisit,
  person: SeedPerson,
): Promise<void> {
  await leaveOtherSession(provider, { request, response }, person);
  await provider.interactionFinished(request, response, {
    login: { accountId: person.sub, amr: ['sandbox'] },
  });
}

// The package changes the person of a session by a detour that needs scripts; ending the old session first does not.
async function leaveOtherSession(
  provider: Provider,
  { request, response }: Pick<LoginVisit, 'request' | 'response'>,
  person: SeedPerson,
): Promise<void> {
  const { cookies } = provider.createContext(request, response);
  const session = await provider.Session.find(cookies.get(provider.cookieName('session')) ?? '');
  if (session && session.accountId !== person.sub) {
    await session.destroy();
  }
}

function brandOf({ tenants }: SandboxSeed, tenantId: unknown, clientId: unknown): string {
  const tenant =
    tenants.find((candidate) => candidate.tenantId === tenantId) ??
    tenants.find(({ loginClientId, publicLoginClientId }) =>
      [loginClientId, publicLoginClientId].includes(String(clientId)),
    );
  return tenant?.name ?? 'Exhibitor Sandbox';
}

function send(response: ServerResponse, status: number, body: string): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries(PAGE_HEADERS)) {
    response.setHeader(name, value);
  }
  response.setHeader('content-length', Buffer.byteLength(body));
  response.end(body);
}
