import { defaultExhibitorId } from '../exhibitors/exhibitor-id.js';
import { lookupPath } from '../exhibitors/lookups/lookup-endpoint.js';
import { parseLookup, parsePage } from '../exhibitors/parse-replies.js';
import { token } from './client-steps.js';
import { listUrl } from './connection-steps.js';
import { NotTested, unusable, type Examination, type Reply } from './examination.js';
import { ok, wrong, type Verdict } from './finding.interface.js';

/** Scope of the REST API, unless onboarding says otherwise (service specification, Endpoints §1). */
const USUAL_SCOPE = 'idp_api';

/** The service lets a request with token and tenant id in. */
export async function access(examination: Examination): Promise<Verdict> {
  const { tenant } = examination;
  if (examination.token === undefined) {
    throw new NotTested("the step 'token' failed");
  }
  const url = listUrl(examination);
  const page = await read(examination, url);
  const { status } = page;
  const challenge = String(page.headers['www-authenticate']);
  if (status === 401 && tenant.scope !== USUAL_SCOPE) {
    await token(examination, USUAL_SCOPE);
    if ((await read(examination, url)).status !== 401) {
      return wrong('scope', `the service accepts tokens with the scope '${USUAL_SCOPE}', not these`);
    }
  }
  if (status === 401) {
    // RFC 6750 §3.1: `invalid_token` is not about the tenant.
    const options = `${challenge.includes('invalid_token') ? '' : 'tenantId, '}baseUrl, authUrl`;
    return wrong(options, 'the service refuses a new token: do both addresses belong together?');
  }
  if (status === 403) {
    const option = challenge.includes('insufficient_scope') ? 'scope' : 'tenantId';
    return wrong(option, 'the service denies access: the tenant is not that of the API client');
  }
  const withoutToken = await examination.first(url);
  const wasDenied = [401, 403].includes(withoutToken.status);
  if (status === 404 && !wasDenied) {
    return wrong('baseUrl', 'the service answers 404, with a token and without: there is no list');
  }
  const proved = 'the service accepts the token and tenantId';
  const verdict =
    status >= 300 && status < 500 && wasDenied
      ? ok(proved)
      : said(page, () => {
          parsePage(page.json, tenant.key);
          return proved;
        });
  examination.page = verdict.status === 'ok' ? page : undefined;
  return verdict;
}

/** The first page of the event. */
export function list({ page, hints, tenant }: Examination): Verdict {
  if (hints.eventId === undefined) {
    throw new NotTested('name an event of the tenant by eventId or --event');
  }
  if (page === undefined) {
    throw new NotTested("the step 'tenant' failed");
  }
  const count = () => parsePage(page.json, tenant.key).paginationMetadata.totalCount;
  return page.status === 404
    ? wrong('eventId', 'the tenant has no such event')
    : said(page, () => `the event has ${count()} exhibitors`);
}

/** The exhibitors of the contact at the event. */
export async function lookup(examination: Examination): Promise<Verdict> {
  const { page, tenant, hints } = examination;
  const { eventId, contactEmail } = hints;
  if (eventId === undefined || contactEmail === undefined) {
    throw new NotTested('name a contact of an event by contactEmail or --email');
  }
  if (page?.status !== 200) {
    throw new NotTested("the step 'list' failed");
  }
  const reply = await read(examination, tenant.baseUrl + lookupPath(eventId, contactEmail));
  const rows = reply.status === 404 ? [] : undefined;
  const found = () => rows ?? parseLookup(reply.json, tenant.key, defaultExhibitorId);
  return said(reply, () => `the contact has ${found().length} exhibitors at the event`);
}

function read(examination: Examination, url: string): Promise<Reply> {
  const { token: accessToken = '', tenant } = examination;
  return examination.send(url, { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId });
}

/** What a reply says, where it is as documented. */
function said(reply: Reply, say: () => string): Verdict {
  const isAnswer = (reply.status > 0 && reply.status < 300) || reply.status === 404;
  try {
    return isAnswer ? ok(say()) : unusable(reply, 'baseUrl', 'the service');
  } catch (error) {
    return wrong('baseUrl', error instanceof Error ? error.message : 'the reply cannot be used');
  }
}
