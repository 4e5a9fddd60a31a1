import { ExhibitorLookups } from '../../exhibitors/lookups/exhibitor-lookups.service.js';
import { listPath, parsePage } from '../../exhibitors/pages/exhibitor-pages.service.js';
import { metadataUrl } from '../../oidc/openid-provider.service.js';
import { unverified } from '../../oidc/verify-signature.js';
import { shownUrl } from '../../config/problems/partner-problems.js';
import { bootAdvice } from '../../config/problems/boot-advice.js';
import type { Call } from '../../call/call.js';
import { Tenant } from '../../config/tenant.js';
import { TokenService } from '../../tokens/token.service.js';
import { prove, Unproved, type Diagnosis, type Probed } from './diagnosis.js';

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** The options have an allowed form, and fit each other. */
export async function valid({ tenant, options }: Diagnosis): Promise<string> {
  const { audience, clientId } = tenant.login ?? {};
  const ofIdToken = (typeof audience === 'string' ? audience : audience?.idToken) ?? clientId;
  // The audience of an ID token contains its client (OIDC Core §2).
  const isOfClient = clientId === undefined || ofIdToken === clientId;
  prove(isOfClient, `the audience of ID tokens is login.clientId, not '${ofIdToken}'`, 'login.audience');
  return ['the options are valid', ...bootAdvice(options)].join('; ');
}

/** Names, ports and certificates. */
export async function connection(diagnosis: Diagnosis): Promise<string> {
  const { baseUrl, authUrl } = diagnosis.tenant;
  const service = await diagnosis.probe(listUrl(diagnosis, baseUrl));
  prove(service.status > 0, service, 'baseUrl');
  const provider = await diagnosis.probe(metadataUrl(authUrl));
  prove(provider.status > 0, provider, 'authUrl');
  return `${service.message}, ${provider.message}`;
}

/** The clock of this machine and that of the provider, which dates its tokens. */
export async function clock(diagnosis: Diagnosis, call: Call): Promise<string> {
  const { authUrl, login: { clockTolerance = 30 } = {} } = diagnosis.tenant;
  const { headers, receivedAt } = await diagnosis.probe(metadataUrl(authUrl));
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const byDate = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  const ahead = Number.isFinite(byDate) ? byDate : await aheadOfToken(diagnosis, call);
  const untold = 'not tested: neither a reply of the provider nor a token tells its time';
  prove(Number.isFinite(ahead), untold);
  const message = `the clock of this host is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  prove(Math.abs(ahead) <= clockTolerance, message, 'login.clockTolerance');
  return `${message}; logins accept ${clockTolerance} s`;
}

/** Keycloak sends no `Date`. Its token was issued a moment ago. In seconds; `NaN` without a JWT, whose reason the next step tells. */
async function aheadOfToken(diagnosis: Diagnosis, call: Call): Promise<number> {
  try {
    await apiClient(diagnosis, call);
  } catch (error) {
    diagnosis.refusal = { error, seen: { ...diagnosis.seen } };
    return Number.NaN;
  }
  return Math.round(Date.now() / 1000 - Number(unverified(diagnosis.accessToken, 'claims').iat));
}

export async function apiClient(diagnosis: Diagnosis, call: Call): Promise<string> {
  const { tenant, context, seen, proved, refusal } = diagnosis;
  if (refusal !== undefined) {
    Object.assign(seen, refusal.seen);
    throw refusal.error;
  }
  const { accessToken } = await context.get(TokenService).tokenFor(tenant, call);
  diagnosis.accessToken = accessToken;
  proved.add('endpoints.token');
  return `${shownUrl(tenant.endpointUrl('token'))} accepts the API client`;
}

export async function access(diagnosis: Diagnosis, call: Call): Promise<string> {
  diagnosis.needs('token');
  const { baseUrl } = diagnosis.tenant;
  const reply = await read(diagnosis, baseUrl);
  const { status } = reply;
  if (isRefusal(status)) {
    throw await refusedToken(diagnosis, reply, call);
  }

  // A service that refuses requests without a token has accepted this one if it answers anything else than a refusal.
  const withoutToken = await diagnosis.probe(listUrl(diagnosis, baseUrl));
  const message = `${withoutToken.message}, without a token`;
  prove(isRefusal(withoutToken.status), { ...withoutToken, message }, 'baseUrl');
  prove(isAnswer(status), reply, 'baseUrl');
  return `the service accepts the token and tenantId: ${reply.message}`;
}

function isRefusal(status: number): boolean {
  return status === 401 || status === 403;
}

/** True for a status that tells of the options: no reply, a 429 and a 5xx do not. */
function isAnswer(status: number): boolean {
  return status >= 200 && status !== 429 && status < 500;
}

/** The options that a 401 or 403 to a new token may mean (RFC 6750 §3.1). Of a scope that was not granted, only a JWT tells. */
async function refusedToken(
  diagnosis: Diagnosis,
  { status, headers, message }: Probed,
  call: Call,
): Promise<Unproved> {
  const { tenant, accessToken } = diagnosis;
  const scope = tenant.settings.scope ?? USUAL_SCOPE;
  const withUsualScope =
    tenant.settings.scope === USUAL_SCOPE ? status : await statusWithUsualScope(diagnosis, call);
  const challenge = String(headers['www-authenticate']);
  const isUsualAccepted = isAnswer(withUsualScope) && !isRefusal(withUsualScope);
  // The service takes another scope, or says that it is about the scope.
  if (isUsualAccepted || challenge.includes('insufficient_scope')) {
    return new Unproved(message, ['scope']);
  }
  const claims = unverified(accessToken, 'claims');
  const granted = [claims['scope']].flat().join(' ').split(' ');
  const lacksScope = scope !== USUAL_SCOPE && !scope.split(' ').every((word) => granted.includes(word));
  // A 401 is about the token, and this one was not granted what was asked for.
  if (status === 401 && lacksScope && 'iss' in claims) {
    return new Unproved(message, ['scope']);
  }
  const isOfTenant = status === 403 || !challenge.includes('invalid_token');
  // Without a token of the usual scope, nothing tells whether `scope: null` is wrong.
  const isUntried = tenant.settings.scope === null && withUsualScope === 0 && !granted.includes(USUAL_SCOPE);
  const note = isUntried ? `. The provider grants no '${USUAL_SCOPE}', for which the service may look` : '';
  return new Unproved(message + note, [
    ...(lacksScope || isUntried ? ['scope'] : []),
    ...(isOfTenant ? ['tenantId'] : []),
    ...(status === 403 ? [] : ['baseUrl', 'authUrl']),
  ]);
}

/** What the service answers to a token with the scope of the specification. 0 where the provider grants none. */
async function statusWithUsualScope(diagnosis: Diagnosis, call: Call): Promise<number> {
  const { tenant, context } = diagnosis;
  const usual = new Tenant(tenant.key, { ...tenant.settings, scope: USUAL_SCOPE }, tenant.http);
  const { seen } = diagnosis;
  const before = { ...seen };
  try {
    const { accessToken } = await context.get(TokenService).tokenFor(usual, call);
    return (await read(diagnosis, tenant.baseUrl, accessToken)).status;
  } catch {
    return 0;
  } finally {
    Object.assign(seen, before);
  }
}

export async function list(diagnosis: Diagnosis): Promise<string> {
  const { tenant, hints } = diagnosis;
  prove(hints.eventId !== undefined, 'not tested: name an event of the tenant by eventId or --event');
  diagnosis.needs('tenant');
  const reply = await read(diagnosis, tenant.baseUrl);
  const suspects = reply.status === 404 ? await absentOptions(diagnosis) : ['baseUrl'];
  prove(reply.status === 200, reply, ...suspects);
  const page = parsePage(reply.json, tenant.key);
  return `the event has ${page.paginationMetadata.totalCount} exhibitors`;
}

/** Gateways ask for a token before they look at the path, so that a 404 is one of the base URL or of the event. */
async function absentOptions(diagnosis: Diagnosis): Promise<string[]> {
  const { origin, pathname } = new URL(diagnosis.tenant.baseUrl);
  if (pathname === '/') {
    return ['eventId'];
  }
  const { status } = await read(diagnosis, origin);
  return status === 200 ? ['baseUrl'] : ['baseUrl', 'eventId'];
}

export async function lookup(diagnosis: Diagnosis, call: Call): Promise<string> {
  const { tenant, context, hints } = diagnosis;
  const { eventId, contactEmail } = hints;
  const isNamed = eventId !== undefined && contactEmail !== undefined;
  prove(isNamed, 'not tested: name a contact of an event by contactEmail or --email');
  diagnosis.needs('list');
  const lookups = context.get(ExhibitorLookups);
  const found = await lookups.findFresh({ tenant, eventId, contactEmail }, call);
  return `the lookup answers ${found.length} exhibitors of the contact`;
}

/** The list endpoint. Its reply without a token proves the address. */
function listUrl({ hints }: Diagnosis, baseUrl: string): string {
  return baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

/** A list with the token: its challenge, which the services do not show, tells a refused token from a refused tenant. */
function read(diagnosis: Diagnosis, baseUrl: string, accessToken = diagnosis.accessToken): Promise<Probed> {
  const { tenant } = diagnosis;
  const headers = { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId };
  return diagnosis.probe(listUrl(diagnosis, baseUrl), headers);
}
