import { ExhibitorLookups } from '../../exhibitors/lookups/exhibitor-lookups.service.js';
import { listPath } from '../../exhibitors/pages/exhibitor-pages.service.js';
import { parsePage } from '../../exhibitors/parse-replies.js';
import { metadataUrl } from '../../oidc/openid-provider.service.js';
import { unverified } from '../../oidc/verify-signature.js';
import { bootAdvice } from '../../config/problems/boot-advice.js';
import type { Deadline } from '../../call/deadline.js';
import { TokenService } from '../../tokens/token.service.js';
import { prove, type Diagnosis, type Probed } from './diagnosis.js';

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
export async function clock(diagnosis: Diagnosis): Promise<string> {
  const { authUrl, login: { clockTolerance = 30 } = {} } = diagnosis.tenant;
  const { headers, receivedAt } = await diagnosis.probe(metadataUrl(authUrl));
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const ahead = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  prove(Number.isFinite(ahead), 'not tested: the reply of the provider has no date');
  const message = `the clock of this host is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  prove(Math.abs(ahead) <= clockTolerance, message, 'login.clockTolerance');
  return `${message}; logins accept ${clockTolerance} s`;
}

export async function apiClient(diagnosis: Diagnosis, deadline: Deadline): Promise<string> {
  const { tenant, context, seen, proved } = diagnosis;
  const { accessToken } = await context.get(TokenService).tokenFor(tenant, deadline);
  diagnosis.accessToken = accessToken;
  proved.add('endpoints.token');
  return `${seen.address} accepts the API client`;
}

export async function access(diagnosis: Diagnosis): Promise<string> {
  diagnosis.needs('token');
  const { baseUrl } = diagnosis.tenant;
  const reply = await read(diagnosis, baseUrl);
  const { status } = reply;
  prove(status !== 401 && status !== 403, reply, ...refusedOptions(diagnosis, reply));
  // A service that refuses requests without a token has accepted this one if it answers anything else than a refusal.
  const isClosed = [401, 403].includes((await diagnosis.probe(listUrl(diagnosis, baseUrl))).status);
  prove(isClosed && status >= 200 && status !== 429 && status < 500, reply, 'baseUrl');
  return `the service accepts the token and tenantId: ${reply.message}`;
}

/** The options that a 401 or 403 to a new token may mean (RFC 6750 §3.1). Of a scope that was not granted, only a JWT tells. */
function refusedOptions({ tenant, accessToken }: Diagnosis, { status, headers }: Probed): string[] {
  const claims = unverified(accessToken, 'claims');
  const challenge = String(headers['www-authenticate']);
  const scope = tenant.settings.scope ?? USUAL_SCOPE;
  const granted = [claims['scope']].flat().join(' ').split(' ');
  const lacksScope = scope !== USUAL_SCOPE && !scope.split(' ').every((word) => granted.includes(word));
  if (challenge.includes('insufficient_scope') || (status === 401 && lacksScope && 'iss' in claims)) {
    return ['scope'];
  }
  if (status === 403) {
    return ['tenantId'];
  }
  const tenantId = challenge.includes('invalid_token') ? [] : ['tenantId'];
  return [...(lacksScope ? ['scope'] : []), ...tenantId, 'baseUrl', 'authUrl'];
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

export async function lookup(diagnosis: Diagnosis, deadline: Deadline): Promise<string> {
  const { tenant, context, hints } = diagnosis;
  const { eventId, contactEmail } = hints;
  const isNamed = eventId !== undefined && contactEmail !== undefined;
  prove(isNamed, 'not tested: name a contact of an event by contactEmail or --email');
  diagnosis.needs('list');
  const lookups = context.get(ExhibitorLookups);
  const found = await lookups.findFresh({ tenant, eventId, contactEmail }, deadline);
  return `the lookup answers ${found.length} exhibitors of the contact`;
}

/** The list endpoint. Its reply without a token proves the address. */
function listUrl({ hints }: Diagnosis, baseUrl: string): string {
  return baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

/** A list with the token: its challenge, which the services do not show, tells a refused token from a refused tenant. */
function read(diagnosis: Diagnosis, baseUrl: string): Promise<Probed> {
  const { tenant, accessToken } = diagnosis;
  const headers = { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId };
  return diagnosis.probe(listUrl(diagnosis, baseUrl), headers);
}
