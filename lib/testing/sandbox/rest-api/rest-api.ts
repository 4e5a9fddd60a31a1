import type { ServerResponse } from 'node:http';
import { MAX_ITEMS_PER_PAGE, pageOf } from './exhibitor-records.js';
import { parseRoute } from '../server/operations.js';
import type { OpenRequest } from '../server/request-log.js';
import type { SandboxState } from '../sandbox-state.js';
import { pause, sendJson } from '../server/send-reply.js';

/**
 * Replies to a list or a lookup by the rules of the service spec. Where the spec is silent, the sandbox limits `ItemsPerPage`
 * to 50, returns an empty page with correct metadata beyond the last page, and returns an empty array for a lookup without
 * results.
 */
export async function replyFromRestApi(
  { settings, tokens, records }: SandboxState,
  { method, path, query, headers }: OpenRequest,
  response: ServerResponse,
): Promise<void> {
  const refuse = (status: number, error: string, message: string, more?: Record<string, string>): void =>
    sendJson(response, status, { error, message }, more);

  if (settings.latency > 0) {
    await pause(settings.latency, response);
  }
  const { eventId, contactEmail } = parseRoute(path);
  if (eventId === undefined) {
    return refuse(400, 'invalid_path', 'The percent-encoding of the path is invalid');
  }
  const tenant = await tokens.tenantOf(headers.authorization);
  if (!tenant) {
    const challenge = { 'www-authenticate': 'Bearer error="invalid_token"' };
    const message = 'A valid access token of the client credentials grant is required';
    return refuse(401, 'invalid_token', message, challenge);
  }
  if (headers['x-tenant-id'] !== tenant.tenantId) {
    const message = 'X-Tenant-Id is not the tenant that the access token was issued to';
    return refuse(403, 'tenant_mismatch', message);
  }
  if (method !== 'GET') {
    return refuse(405, 'method_not_allowed', 'Only GET is allowed', { allow: 'GET' });
  }
  const exhibitors = records.find(tenant.key, eventId);
  if (!exhibitors) {
    return refuse(404, 'event_not_found', 'The tenant has no such event');
  }
  if (contactEmail !== undefined) {
    return sendJson(
      response,
      200,
      exhibitors.filter((record) => record.contactEmails.includes(contactEmail)),
    );
  }
  const page = parsePositiveInteger(query['Page'], 1);
  const itemsPerPage = parsePositiveInteger(query['ItemsPerPage'], MAX_ITEMS_PER_PAGE);
  if (page === undefined || itemsPerPage === undefined) {
    return refuse(400, 'invalid_paging', 'Page and ItemsPerPage must be integers from 1');
  }
  sendJson(response, 200, pageOf(exhibitors, page, Math.min(itemsPerPage, MAX_ITEMS_PER_PAGE)));
}

/** `undefined` if the parameter is repeated or not an integer from 1 to 999,999,999. */
function parsePositiveInteger(
  value: string | readonly string[] | undefined,
  defaultValue: number,
): number | undefined {
  if (value === undefined) {
    return defaultValue;
  }
  return typeof value === 'string' && /^[1-9]\d{0,8}$/.test(value) ? Number(value) : undefined;
}
