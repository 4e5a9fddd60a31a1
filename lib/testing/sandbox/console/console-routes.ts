import type { IncomingMessage, ServerResponse } from 'node:http';
import { CONSOLE_HEADERS, renderConsole } from './console-page.js';
import { issueAccessToken } from '../provider/api-access.js';
import type { Provider } from '../provider/identity-provider.js';
import { createTenantOptions } from '../sandbox-options.js';
import type { SandboxState } from '../sandbox-state.js';
import { personOf } from '../seed/seed.js';
import { sendJson, sendReply } from '../server/send-reply.js';

const TEXT = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };

export function isConsole({ url = '' }: IncomingMessage): boolean {
  return /^\/sandbox(?:[/?]|$)/.test(url);
}

/** Serves the page `/sandbox`, the credentials of the tenants, access tokens of people, faults and the revocation of tokens. */
export async function handleConsole(
  state: SandboxState,
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
  body: string,
): Promise<void> {
  if (!isOwnRequest(request)) {
    return sendJson(response, 403, { error: 'foreign', message: 'Other pages may not use the sandbox' });
  }
  const { pathname, searchParams } = new URL(request.url ?? '', state.url);
  try {
    switch (`${request.method} ${pathname}`) {
      case 'GET /sandbox':
        return sendReply(response, 200, CONSOLE_HEADERS, renderConsole(state));
      case 'GET /sandbox/tenants':
        return sendJson(response, 200, { tenants: tenantsOptions(state) });
      case 'GET /sandbox/token': {
        const person = personOf(state.seed, searchParams.get('person') ?? '');
        return sendReply(response, 200, TEXT, await issueAccessToken(provider, person));
      }
      case 'DELETE /sandbox/tokens':
        state.tokens.revoke(searchParams.get('tenant') ?? undefined);
        return sendJson(response, 200, {});
      case 'POST /sandbox/faults':
        state.faults.addJson(body);
        break;
      case 'DELETE /sandbox/faults':
        state.faults.clear();
        break;
      case 'GET /sandbox/faults':
        break;
      default:
        return sendJson(response, 404, { error: 'not_found', message: 'See GET /sandbox' });
    }
    sendJson(response, 200, state.faults);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    sendJson(response, 400, { error: 'invalid_request', message });
  }
}

function tenantsOptions(state: SandboxState) {
  const overrides = { keys: 'url', redirectUri: state.options.redirectUris?.[0] } as const;
  return Object.fromEntries(
    state.seed.tenants.map((tenant) => [tenant.key, createTenantOptions(state, tenant, overrides)]),
  );
}

/**
 * Whether the page itself or a program sent a request. Browsers send `Origin` with every request of another page that changes
 * something, or whose reply that page could read.
 */
function isOwnRequest({ headers: { host, origin } }: IncomingMessage): boolean {
  return origin === undefined || origin === `http://${host}`;
}
