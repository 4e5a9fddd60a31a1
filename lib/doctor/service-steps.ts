import { defaultExhibitorId } from '../exhibitors/exhibitor-id.js';
import { lookupPath } from '../exhibitors/lookups/lookup-endpoint.js';
import { isPartOfLookup } from '../exhibitors/lookups/lookup-pages.js';
import { listPath } from '../exhibitors/pages/exhibitor-pages.service.js';
import { parseLookup, parsePage } from '../exhibitors/parse-replies.js';
import { metadataUrl } from '../oidc/parse-metadata.js';
import { token } from './client-steps.js';
import { unusable, type Examination, type Reply } from './examination.js';
import { allWrong, notTested, unknown, Unproved, wrong, type WrongOption } from './finding.js';

/** Codes of names that do not resolve. Other failures are those of a connection. */
const NAME_FAILURES = ['ENOTFOUND', 'EAI_AGAIN'];

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** Whom a reply to a new token blames; the first row that fits. The challenge is that of RFC 6750 §3.1. */
const REFUSALS = [
  { status: 401, challenge: 'invalid_token', options: 'baseUrl, authUrl', why: 'do both belong together?' },
  { status: 401, challenge: '', options: 'tenantId, baseUrl, authUrl', why: 'do they belong together?' },
  { status: 403, challenge: 'insufficient_scope', options: 'scope', why: 'the scope is not enough' },
  { status: 403, challenge: '', options: 'tenantId', why: 'the API client is not that of this tenant' },
];

export async function names(examination: Examination): Promise<string> {
  await connect(examination, (failure) => NAME_FAILURES.includes(failure));
  return 'the names of the service and the provider resolve';
}

export async function tls(examination: Examination): Promise<string> {
  await connect(examination, () => true);
  return 'the service and the provider answer; Node trusts the certificates of https addresses';
}

/** @throws {Unproved} with the options whose address cannot be reached for such a reason */
async function connect(examination: Examination, isReason: (failure: string) => boolean): Promise<void> {
  const { tenant, unreached } = examination;
  const { authUrl, login } = tenant;
  const discovered = login?.discovery === true ? { 'login.issuer': metadataUrl(login.issuer) } : {};
  const urls = { baseUrl: listUrl(examination), authUrl: metadataUrl(authUrl), ...discovered };
  const found: WrongOption[] = [];
  for (const [option, url] of Object.entries(urls)) {
    const { origin } = new URL(url);
    await examination.ask(url).catch(ignoreUnproved);
    const failure = unreached.get(origin);
    if (failure !== undefined && isReason(failure)) {
      found.push([option, `a request to ${origin} failed: ${failure}`]);
    }
  }
  if (found.length > 0) {
    throw allWrong(found);
  }
}

/** The clock of this machine and that of the provider, which dates its tokens. */
export async function clock(examination: Examination): Promise<string> {
  const { authUrl, login: { clockTolerance = 30 } = {} } = examination.tenant;
  const { headers, receivedAt } = await examination.ask(metadataUrl(authUrl));
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const ahead = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  if (!Number.isFinite(ahead)) {
    throw unknown('no reply of the provider has a date');
  }
  const message = `the clock of this host is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  if (Math.abs(ahead) > clockTolerance) {
    throw wrong('login.clockTolerance', message, 'Set the clock of this host (NTP) rather than the option.');
  }
  return `${message}; logins accept ${clockTolerance} s`;
}

export async function access(examination: Examination): Promise<string> {
  examination.needs('token');
  const { scope } = examination.tenant.settings;
  const url = listUrl(examination);
  const page = await read(examination, url);
  if (page.status === 401 && scope !== USUAL_SCOPE) {
    // Where that scope is refused, the token stays, and so does the reply.
    await token(examination, USUAL_SCOPE).catch(ignoreUnproved);
    if ((await read(examination, url)).status !== 401) {
      throw wrong('scope', `the service accepts tokens with the scope '${USUAL_SCOPE}', not these`);
    }
  }
  const challenge = String(page.headers['www-authenticate']);
  const refusal = REFUSALS.find((one) => one.status === page.status && challenge.includes(one.challenge));
  if (refusal !== undefined) {
    throw wrong(refusal.options, `the service answers ${page.status} to a new token: ${refusal.why}`);
  }
  if (!provesToken(page, await examination.ask(url))) {
    parsePage(bodyOf(page), examination.tenant.key);
  }
  return 'the service accepts the token and tenantId';
}

export async function list(examination: Examination): Promise<string> {
  if (examination.hints.eventId === undefined) {
    throw notTested('name an event of the tenant by eventId or --event');
  }
  examination.needs('tenant');
  const page = await read(examination, listUrl(examination));
  if (page.status === 404) {
    throw wrong('eventId', 'the service answers 404: this tenant has no such event');
  }
  const { paginationMetadata } = parsePage(bodyOf(page), examination.tenant.key);
  return `the event has ${paginationMetadata.totalCount} exhibitors`;
}

export async function lookup(examination: Examination): Promise<string> {
  const { tenant, hints } = examination;
  const { eventId, contactEmail } = hints;
  if (eventId === undefined || contactEmail === undefined) {
    throw notTested('name a contact of an event by contactEmail or --email');
  }
  examination.needs('list');
  const reply = await read(examination, tenant.baseUrl + lookupPath(eventId, contactEmail));
  const body = reply.status === 404 ? [] : bodyOf(reply);
  const rows = parseLookup(body, tenant.key, defaultExhibitorId);
  return `the contact has ${isPartOfLookup(body) ? 'at least ' : ''}${rows.length} exhibitors at the event`;
}

/** A refusal of something else, where a request without a token is denied: the token was accepted. 429 shows nothing. */
function provesToken({ status }: Reply, withoutToken: Reply): boolean {
  return status >= 400 && status < 500 && status !== 429 && [401, 403].includes(withoutToken.status);
}

function ignoreUnproved(error: unknown): void {
  if (!(error instanceof Unproved)) {
    throw error;
  }
}

/** The list endpoint. Its reply without a token proves the address. */
function listUrl({ tenant, hints }: Examination): string {
  return tenant.baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

function read(examination: Examination, url: string): Promise<Reply> {
  const { token: accessToken, tenant } = examination;
  return examination.ask(url, { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId });
}

/** @throws {Unproved} where the reply has none */
function bodyOf(reply: Reply): unknown {
  if (reply.status < 200 || reply.status >= 300) {
    throw unusable(reply, 'baseUrl', 'the service');
  }
  return reply.json;
}
