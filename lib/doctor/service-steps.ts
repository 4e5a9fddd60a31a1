import { defaultExhibitorId } from '../exhibitors/exhibitor-id.js';
import { lookupPath } from '../exhibitors/lookups/lookup-endpoint.js';
import { parseLookup, parsePage } from '../exhibitors/parse-replies.js';
import { token } from './client-steps.js';
import { listUrl } from './connection-steps.js';
import { unusable, type Examination, type Reply } from './examination.js';
import { notTested, wrong } from './finding.js';

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** The service lets a request with token and tenant id in. */
export async function access(examination: Examination): Promise<string> {
  const { tenant } = examination;
  if (examination.token === '') {
    throw notTested("the step 'token' failed");
  }
  const url = listUrl(examination);
  const page = await read(examination, url);
  const { status } = page;
  const challenge = String(page.headers['www-authenticate']);
  if (status === 401 && tenant.scope !== USUAL_SCOPE) {
    await token(examination, USUAL_SCOPE);
    if ((await read(examination, url)).status !== 401) {
      throw wrong('scope', `the service accepts tokens with the scope '${USUAL_SCOPE}', not these`);
    }
  }
  if (status === 401) {
    // RFC 6750 §3.1: `invalid_token` is not about the tenant.
    const options = `${challenge.includes('invalid_token') ? '' : 'tenantId, '}baseUrl, authUrl`;
    throw wrong(options, 'the service answers 401 to a new token: do both addresses belong together?');
  }
  if (status === 403) {
    const option = challenge.includes('insufficient_scope') ? 'scope' : 'tenantId';
    throw wrong(option, 'the service answers 403: the API client is not that of this tenant');
  }
  const withoutToken = await examination.first(url);
  const wasDenied = [401, 403].includes(withoutToken.status);
  if (status === 404 && !wasDenied) {
    throw wrong('baseUrl', 'the service answers 404, with a token and without: there is no list');
  }
  // Any other reply that a request without a token does not get shows that this one was accepted; 429 shows nothing.
  if (status < 300 || status === 429 || status >= 500 || !wasDenied) {
    parsed(page, () => parsePage(page.json, tenant.key));
  }
  examination.page = page;
  return 'the service accepts the token and tenantId';
}

/** The first page of the event. */
export function list({ page, hints, tenant }: Examination): string {
  if (hints.eventId === undefined) {
    throw notTested('name an event of the tenant by eventId or --event');
  }
  if (page === undefined) {
    throw notTested("the step 'tenant' failed");
  }
  if (page.status === 404) {
    throw wrong('eventId', 'the service answers 404: this tenant has no such event');
  }
  const { paginationMetadata } = parsed(page, () => parsePage(page.json, tenant.key));
  return `the event has ${paginationMetadata.totalCount} exhibitors`;
}

/** The exhibitors of the contact at the event. */
export async function lookup(examination: Examination): Promise<string> {
  const { page, tenant, hints } = examination;
  const { eventId, contactEmail } = hints;
  if (eventId === undefined || contactEmail === undefined) {
    throw notTested('name a contact of an event by contactEmail or --email');
  }
  if (page?.status !== 200) {
    throw notTested("the step 'list' failed");
  }
  const reply = await read(examination, tenant.baseUrl + lookupPath(eventId, contactEmail));
  const json = reply.status === 404 ? [] : reply.json;
  const rows = parsed(reply, () => parseLookup(json, tenant.key, defaultExhibitorId));
  return `the contact has ${rows.length} exhibitors at the event`;
}

function read(examination: Examination, url: string): Promise<Reply> {
  const { token: accessToken, tenant } = examination;
  return examination.send(url, { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId });
}

/** @throws {Unproved} where a reply is not as documented */
function parsed<T>(reply: Reply, parse: () => T): T {
  if (reply.status !== 404 && (reply.status === 0 || reply.status >= 300)) {
    throw unusable(reply, 'baseUrl', 'the service');
  }
  try {
    return parse();
  } catch (error) {
    throw wrong('baseUrl', error instanceof Error ? error.message : 'the reply cannot be used');
  }
}
