import { TokenRejectedError } from '../../errors/token-rejected.error.js';
import { ExhibitorLookups } from '../../exhibitors/lookups/exhibitor-lookups.service.js';
import { listPath, parsePage } from '../../exhibitors/pages/exhibitor-pages.service.js';
import { metadataUrl } from '../../oidc/openid-provider.service.js';
import { unverified } from '../../oidc/verify-signature.js';
import { addressOption, shownUrl } from '../../config/problems/partner-problems.js';
import { bootAdvice } from '../../config/problems/boot-advice.js';
import type { Call } from '../../call/call.js';
import { Tenant } from '../../config/tenant.js';
import { TokenService } from '../../tokens/token.service.js';
import { prove, Unproved, type Diagnosis, type Json, type Probed } from './diagnosis.js';

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** Step `options`: they have an allowed form, and fit each other. */
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
  prove(Number.isFinite(ahead), 'not tested: neither a reply of the provider nor a token tells its time');
  const message = `the clock of this host is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  prove(Math.abs(ahead) <= clockTolerance, message, 'login.clockTolerance');
  return `${message}; logins accept ${clockTolerance} s`;
}

/** In seconds, by a token that was issued a moment ago: Keycloak sends no `Date`. `NaN` without a JWT; the next step tells the reason. */
async function aheadOfToken(diagnosis: Diagnosis, call: Call): Promise<number> {
  try {
    await apiClient(diagnosis, call);
  } catch (error) {
    diagnosis.refusal = { error, seen: { ...diagnosis.seen } };
    return Number.NaN;
  }
  return Math.round(Date.now() / 1000 - Number(unverified(diagnosis.accessToken, 'claims').iat));
}

/** Step `token`. Where `clock` has asked for a token in vain, it is not asked for again. */
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

/** Step `tenant`. Where a list without a token is refused, and the same list with it is not, the token is accepted. */
export async function access(diagnosis: Diagnosis, call: Call): Promise<string> {
  diagnosis.needs('token');
  const { baseUrl } = diagnosis.tenant;
  const reply = await read(diagnosis, baseUrl);
  if (isRefusal(reply.status)) {
    return refusedToken(diagnosis, reply, call);
  }
  const withoutToken = await diagnosis.probe(listUrl(diagnosis, baseUrl));
  const message = `${withoutToken.message}, without a token`;
  prove(isRefusal(withoutToken.status), { ...withoutToken, message }, 'baseUrl');
  prove(isAcceptance(reply.status), reply, 'baseUrl');
  return `the service accepts the token and tenantId: ${reply.message}`;
}

function isRefusal(status: number): boolean {
  return status === 401 || status === 403;
}

/** No reply (0), a 429 and a 5xx tell nothing of a token. */
function isAcceptance(status: number): boolean {
  return status >= 200 && status < 500 && status !== 429 && !isRefusal(status);
}

/** A new token was answered with 401 or 403. The finding names `scope`, other options, or both. */
async function refusedToken(diagnosis: Diagnosis, refusal: Probed, call: Call): Promise<never> {
  const { tenant, proved } = diagnosis;
  const { scope } = tenant.settings;
  // If `scope` is `idp_api`, the refused token is the one with it.
  const usual = scope === USUAL_SCOPE ? 'refused' : await tryUsualScope(diagnosis, call);
  const verdict = judgeScope(diagnosis, refusal, usual);
  const others = suspectsBesideScope(tenant, refusal);
  const options = { wrong: ['scope'], right: others, 'in doubt': ['scope', ...others] }[verdict];
  if (options.includes('endpoints.token')) {
    // An endpoint of another issuer may know this client, too.
    proved.delete('endpoints.token');
  }
  const isLacking = scope === null && verdict === 'in doubt' && usual === 'not granted';
  const note = isLacking ? `. The provider grants no '${USUAL_SCOPE}', for which the service may look` : '';
  throw new Unproved(refusal.message + note, options);
}

/** What came of a token with `idp_api`. `unknown`: neither the provider nor the service has told. */
type UsualScope = 'accepted' | 'refused' | 'not granted' | 'unknown';

async function tryUsualScope(diagnosis: Diagnosis, call: Call): Promise<UsualScope> {
  const { tenant, context } = diagnosis;
  const usual = new Tenant(tenant.key, { ...tenant.settings, scope: USUAL_SCOPE }, tenant.http);
  try {
    const { accessToken } = await context.get(TokenService).tokenFor(usual, call);
    const { status } = await read(diagnosis, tenant.baseUrl, accessToken);
    if (isAcceptance(status)) {
      return 'accepted';
    }
    return isRefusal(status) ? 'refused' : 'unknown';
  } catch (error) {
    return error instanceof TokenRejectedError ? 'not granted' : 'unknown';
  }
}

type ScopeVerdict = 'wrong' | 'right' | 'in doubt';

/**
 * Whether a token was refused for its scope. The first row that holds:
 *
 * | condition                                                    | `scope` is | since                                                 |
 * | ------------------------------------------------------------ | ---------- | ----------------------------------------------------- |
 * | a token with `idp_api` is accepted                           | wrong      | the service requires `idp_api`                        |
 * | the challenge is `insufficient_scope`                        | wrong      | the service says so (RFC 6750 §3.1)                   |
 * | `scope` is `idp_api`                                         | right      | the service specification says so                     |
 * | the token has `scope`, or `idp_api` where that is `null`     | right      | the provider has granted it                           |
 * | `scope` is `null`, and a token with `idp_api` is refused too | right      | `idp_api` makes no difference                         |
 * | `scope` is `null`                                            | in doubt   | the service may require `idp_api`                     |
 * | 401, and the token has the claim `scope`                     | wrong      | the provider has not granted it                       |
 * | any other                                                    | in doubt   | a 403 may be of the tenant; other tokens tell nothing |
 */
function judgeScope(diagnosis: Diagnosis, refusal: Probed, usual: UsualScope): ScopeVerdict {
  const { scope } = diagnosis.tenant.settings;
  const claims = unverified(diagnosis.accessToken, 'claims');
  if (usual === 'accepted' || says(refusal, 'insufficient_scope')) {
    return 'wrong';
  }
  if (scope === USUAL_SCOPE || isGranted(scope ?? USUAL_SCOPE, claims)) {
    return 'right';
  }
  if (scope === null) {
    return usual === 'refused' ? 'right' : 'in doubt';
  }
  return refusal.status === 401 && 'scope' in claims ? 'wrong' : 'in doubt';
}

function isGranted(scope: string, claims: Json): boolean {
  const granted = [claims['scope']].flat().join(' ').split(' ');
  return scope.split(' ').every((word) => granted.includes(word));
}

/**
 * | refusal                  | since                                        | options                            |
 * | ------------------------ | -------------------------------------------- | ---------------------------------- |
 * | 403                      | the API client is not that of this tenant    | `tenantId`                         |
 * | 401 with `invalid_token` | the service accepts tokens of another issuer | `baseUrl`, the address             |
 * | any other 401            | one of these two                             | `tenantId`, `baseUrl`, the address |
 *
 * The address is that of the token endpoint: `authUrl` or `endpoints.token` ({@link addressOption}).
 */
function suspectsBesideScope(tenant: Tenant, refusal: Probed): string[] {
  if (refusal.status === 403) {
    return ['tenantId'];
  }
  const ofToken = ['baseUrl', addressOption(tenant, 'token')];
  return says(refusal, 'invalid_token') ? ofToken : ['tenantId', ...ofToken];
}

/** Whether the challenge of a refusal has this error. */
function says({ headers }: Probed, error: string): boolean {
  return String(headers['www-authenticate']).includes(error);
}

export async function list(diagnosis: Diagnosis): Promise<string> {
  const { tenant, hints } = diagnosis;
  prove(hints.eventId !== undefined, 'not tested: name an event of the tenant by eventId or --event');
  diagnosis.needs('tenant');
  const reply = await read(diagnosis, tenant.baseUrl);
  const suspects = reply.status === 404 ? await suspectsOf404(diagnosis) : ['baseUrl'];
  prove(reply.status === 200, reply, ...suspects);
  const page = parsePage(reply.json, tenant.key);
  return `the event has ${page.paginationMetadata.totalCount} exhibitors`;
}

/** A gateway may look at the token before the path, so that only a 404 tells of a wrong path in the base URL; or it is of the event. */
async function suspectsOf404(diagnosis: Diagnosis): Promise<string[]> {
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
  const found = await context.get(ExhibitorLookups).findFresh({ tenant, eventId, contactEmail }, call);
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
