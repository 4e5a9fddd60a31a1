import { ExhibitorLookups } from '../exhibitors/lookups/exhibitor-lookups.service.js';
import { lookupPath } from '../exhibitors/lookups/lookup-endpoint.js';
import { listPath } from '../exhibitors/pages/exhibitor-pages.service.js';
import { parsePage } from '../exhibitors/parse-replies.js';
import { metadataUrl } from '../oidc/openid-provider.service.js';
import { shownUrl } from '../problems/address-problems.js';
import { bootAdvice } from '../problems/boot-advice.js';
import { TokenService } from '../tokens/token.service.js';
import { jsonIn, unusable, type Diagnosis, type Probed } from './diagnosis.js';
import { notTested, Unproved } from './finding.js';

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** The options have an allowed form, and fit each other. */
export function valid({ tenant, checked }: Diagnosis): string {
  const { audience, clientId } = tenant.login ?? {};
  const ofIdToken = typeof audience === 'string' ? audience : audience?.idToken;
  // The audience of an ID token contains its client (OIDC Core §2).
  if (ofIdToken !== undefined && clientId !== undefined && ofIdToken !== clientId) {
    const message = `the audience of ID tokens is login.clientId '${clientId}', not '${ofIdToken}'`;
    throw new Unproved(message, ['login.audience']);
  }
  return ['the options are valid', ...bootAdvice(checked)].join('; ');
}

/** Names, ports and certificates. */
export async function connection(diagnosis: Diagnosis): Promise<string> {
  const { authUrl } = diagnosis.tenant;
  const urls = { baseUrl: listUrl(diagnosis), authUrl: metadataUrl(authUrl) };
  for (const [option, url] of Object.entries(urls)) {
    const reply = await diagnosis.probe(url);
    if (reply.status === 0) {
      throw unusable(reply, option, url);
    }
  }
  return `the service answers at ${shownUrl(urls.baseUrl)}, the provider at ${new URL(authUrl).origin}`;
}

/** The clock of this machine and that of the provider, which dates its tokens. */
export async function clock(diagnosis: Diagnosis): Promise<string> {
  const { authUrl, login: { clockTolerance = 30 } = {} } = diagnosis.tenant;
  const { headers, receivedAt } = await diagnosis.probe(metadataUrl(authUrl));
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const ahead = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  if (!Number.isFinite(ahead)) {
    throw notTested('the reply of the provider has no date');
  }
  const message = `the clock of this host is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  if (Math.abs(ahead) > clockTolerance) {
    const advice = 'Set the clock of this host (NTP) rather than the option.';
    throw new Unproved(message, ['login.clockTolerance'], advice);
  }
  return `${message}; logins accept ${clockTolerance} s`;
}

/** An access token of the REST API. */
export async function apiClient(diagnosis: Diagnosis): Promise<string> {
  const { tenant, context } = diagnosis;
  const { tokenUrl, tokenUrlOption } = tenant;
  const { accessToken } = await diagnosis.ask(tokenUrlOption, tokenUrl, (deadline) =>
    context.get(TokenService).tokenFor(tenant, deadline),
  );
  diagnosis.secrets.push(accessToken);
  diagnosis.accessToken = accessToken;
  diagnosis.proved.add('endpoints.token');
  // Nothing is trusted because of them.
  diagnosis.claims = jsonIn(Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString());
  return `${shownUrl(tokenUrl)} accepts the API client`;
}

/** Token and tenant id. */
export async function access(diagnosis: Diagnosis): Promise<string> {
  diagnosis.needs('token');
  const url = listUrl(diagnosis);
  const reply = await read(diagnosis, url);
  const { status } = reply;
  // RFC 6750 §3.1.
  const challenge = String(reply.headers['www-authenticate']);
  const message = `${shownUrl(url)} answers ${status} to a new token`;
  if (status === 401) {
    throw new Unproved(message, refusedToken(diagnosis, challenge));
  }
  if (status === 403) {
    throw new Unproved(message, [challenge.includes('insufficient_scope') ? 'scope' : 'tenantId']);
  }
  // Whoever asks for a token, and refuses something else, has accepted this one.
  const isOpen = ![401, 403].includes((await diagnosis.probe(url)).status);
  if (isOpen || status === 429 || status >= 500) {
    throw unusable(reply, 'baseUrl', url);
  }
  return `the service accepts the token and tenantId at ${shownUrl(url)}`;
}

/** A provider may grant less than the scope that was asked for. What it granted is known of a JWT only. */
function refusedToken({ tenant, claims }: Diagnosis, challenge: string): string[] {
  const { scope } = tenant.settings;
  const isOwn = scope !== USUAL_SCOPE && scope !== null;
  if (isOwn && claims !== undefined && ![claims['scope']].flat().join(' ').split(' ').includes(scope)) {
    return ['scope'];
  }
  const tenantId = challenge.includes('invalid_token') ? [] : ['tenantId'];
  return [...(isOwn && claims === undefined ? ['scope'] : []), ...tenantId, 'baseUrl', 'authUrl'];
}

export async function list(diagnosis: Diagnosis): Promise<string> {
  const { eventId } = diagnosis.hints;
  if (eventId === undefined) {
    throw notTested('name an event of the tenant by eventId or --event');
  }
  diagnosis.needs('tenant');
  const url = listUrl(diagnosis);
  const reply = await read(diagnosis, url);
  if (reply.status === 404) {
    throw new Unproved(`${shownUrl(url)} answers 404`, await absentOptions(diagnosis, eventId));
  }
  if (reply.status < 200 || reply.status >= 300) {
    throw unusable(reply, 'baseUrl', url);
  }
  const page = await diagnosis.ask('baseUrl', url, () => parsePage(jsonIn(reply.text), diagnosis.tenant.key));
  return `the event has ${page.paginationMetadata.totalCount} exhibitors`;
}

/** Gateways ask for a token before they look at the path, so that a 404 is one of the base URL or of the event. */
async function absentOptions(diagnosis: Diagnosis, eventId: string): Promise<string[]> {
  const { origin, pathname } = new URL(diagnosis.tenant.baseUrl);
  if (pathname === '/') {
    return ['eventId'];
  }
  const { status } = await read(diagnosis, origin + listPath(eventId, 1, 1));
  return status === 200 ? ['baseUrl'] : ['baseUrl', 'eventId'];
}

export async function lookup(diagnosis: Diagnosis): Promise<string> {
  const { tenant, context, hints } = diagnosis;
  const { eventId, contactEmail } = hints;
  if (eventId === undefined || contactEmail === undefined) {
    throw notTested('name a contact of an event by contactEmail or --email');
  }
  diagnosis.needs('list');
  const url = tenant.baseUrl + lookupPath(eventId, contactEmail);
  const found = await diagnosis.ask('baseUrl', url, (deadline) =>
    context.get(ExhibitorLookups).findFresh({ tenant, eventId, contactEmail }, deadline),
  );
  return `the lookup answers ${found.length} exhibitors of the contact`;
}

/** The list endpoint. Its reply without a token proves the address. */
function listUrl({ tenant, hints }: Diagnosis): string {
  return tenant.baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

/** A list with the token: its challenge, which the services do not show, tells a refused token from a refused tenant. */
function read(diagnosis: Diagnosis, url: string): Promise<Probed> {
  const { tenant, accessToken } = diagnosis;
  return diagnosis.probe(url, { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId });
}
