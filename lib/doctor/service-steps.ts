import { defaultExhibitorId } from '../exhibitors/exhibitor-id.js';
import { lookupPath } from '../exhibitors/lookups/lookup-endpoint.js';
import { listPath } from '../exhibitors/pages/exhibitor-pages.service.js';
import { parseLookup, parsePage } from '../exhibitors/parse-replies.js';
import { metadataUrl } from '../oidc/parse-metadata.js';
import { shownUrl } from '../problems/address-problems.js';
import { Tenant } from '../tenants/tenant.js';
import { TokenService } from '../tokens/token.service.js';
import { jsonIn, unusable, type Diagnosis, type Probed } from './diagnosis.js';
import { allWrong, notTested, wrong, type WrongOption } from './finding.js';

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** Whom a reply to a new token blames; the first row that fits. The challenge is that of RFC 6750 §3.1. */
const REFUSALS = [
  { status: 401, challenge: 'invalid_token', options: 'baseUrl, authUrl', why: 'do both belong together?' },
  { status: 401, challenge: '', options: 'tenantId, baseUrl, authUrl', why: 'do they belong together?' },
  { status: 403, challenge: 'insufficient_scope', options: 'scope', why: 'the scope is not enough' },
  { status: 403, challenge: '', options: 'tenantId', why: 'the API client is not that of this tenant' },
];

/** Names, ports and certificates. */
export async function connection(diagnosis: Diagnosis): Promise<string> {
  const { authUrl } = diagnosis.tenant;
  const urls = { baseUrl: listUrl(diagnosis), authUrl: metadataUrl(authUrl) };
  const found: WrongOption[] = [];
  for (const [option, url] of Object.entries(urls)) {
    const { failure, receivedAt } = await diagnosis.probe(url);
    if (failure !== undefined && receivedAt === 0) {
      found.push([option, `no reply from ${shownUrl(url)}: ${failure}`]);
    }
  }
  if (found.length > 0) {
    throw allWrong(found);
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
    throw wrong('login.clockTolerance', message, 'Set the clock of this host (NTP) rather than the option.');
  }
  return `${message}; logins accept ${clockTolerance} s`;
}

export async function access(diagnosis: Diagnosis): Promise<string> {
  diagnosis.needs('token');
  const { tenant } = diagnosis;
  const url = listUrl(diagnosis);
  const page = await read(diagnosis, url);
  if (page.status === 401 && tenant.settings.scope !== USUAL_SCOPE) {
    const usual = new Tenant(tenant.key, { ...tenant.settings, scope: USUAL_SCOPE }, tenant.http);
    const granted = diagnosis.call(async (deadline) =>
      diagnosis.context.get(TokenService).tokenFor(usual, deadline),
    );
    const accessToken = await granted.then(
      (token) => token.accessToken,
      () => undefined,
    );
    if (accessToken !== undefined && (await read(diagnosis, url, accessToken)).status !== 401) {
      throw wrong('scope', `the service accepts tokens with the scope '${USUAL_SCOPE}', not these`);
    }
  }
  diagnosis.isTokenRefused = page.status === 401;
  const challenge = String(page.headers['www-authenticate']);
  const refusal = REFUSALS.find((one) => one.status === page.status && challenge.includes(one.challenge));
  if (refusal !== undefined) {
    const { options, why } = refusal;
    throw wrong(options, `${shownUrl(url)} answers ${page.status} to a new token: ${why}`);
  }
  if (!provesToken(page, await diagnosis.probe(url))) {
    parsePage(bodyOf(page, url), tenant.key);
  }
  return `the service accepts the token and tenantId at ${shownUrl(url)}`;
}

/** A refusal of something else, where a request without a token is denied: the token was accepted. 429 shows nothing. */
function provesToken({ status }: Probed, withoutToken: Probed): boolean {
  return status >= 400 && status < 500 && status !== 429 && [401, 403].includes(withoutToken.status);
}

export async function list(diagnosis: Diagnosis): Promise<string> {
  const { tenant, hints } = diagnosis;
  if (hints.eventId === undefined) {
    throw notTested('name an event of the tenant by eventId or --event');
  }
  diagnosis.needs('tenant');
  const url = listUrl(diagnosis);
  const page = await read(diagnosis, url);
  if (page.status === 404) {
    throw wrong(await absentOption(diagnosis, hints.eventId), `${shownUrl(url)} answers 404`);
  }
  const { paginationMetadata } = parsePage(bodyOf(page, url), tenant.key);
  return `the event has ${paginationMetadata.totalCount} exhibitors`;
}

/** Gateways ask for a token before they look at the path, so that a 404 is one of the base URL or of the event. */
async function absentOption(diagnosis: Diagnosis, eventId: string): Promise<string> {
  const { origin, pathname } = new URL(diagnosis.tenant.baseUrl);
  if (pathname === '/') {
    return 'eventId';
  }
  const [before, after] = `${pathname}/`.split('/api/');
  const base = after === undefined ? '' : before;
  const { status } = await read(diagnosis, `${origin}${base}${listPath(eventId, 1, 1)}`);
  return status < 300 ? 'baseUrl' : 'baseUrl, eventId';
}

export async function lookup(diagnosis: Diagnosis): Promise<string> {
  const { tenant, hints } = diagnosis;
  const { eventId, contactEmail } = hints;
  if (eventId === undefined || contactEmail === undefined) {
    throw notTested('name a contact of an event by contactEmail or --email');
  }
  diagnosis.needs('list');
  const url = tenant.baseUrl + lookupPath(eventId, contactEmail);
  const reply = await read(diagnosis, url);
  const body = reply.status === 404 ? [] : bodyOf(reply, url);
  const rows = parseLookup(body, tenant.key, defaultExhibitorId);
  return `the lookup answers ${rows.length} exhibitors of the contact`;
}

/** The list endpoint. Its reply without a token proves the address. */
function listUrl({ tenant, hints }: Diagnosis): string {
  return tenant.baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

function read(diagnosis: Diagnosis, url: string, token = diagnosis.accessToken): Promise<Probed> {
  const { tenantId } = diagnosis.tenant;
  return diagnosis.probe(url, { authorization: `Bearer ${token}`, 'x-tenant-id': tenantId });
}

/** @throws {Unproved} where the reply has none */
function bodyOf(reply: Probed, url: string): unknown {
  if (reply.status < 200 || reply.status >= 300) {
    throw unusable(reply, 'baseUrl', url);
  }
  return jsonIn(reply.text);
}
