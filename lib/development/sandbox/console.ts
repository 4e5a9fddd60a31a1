import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParsedUrlQuery } from 'node:querystring';
import type { Fault } from './faults.js';
import { issueAccessToken } from './provider/api-access.js';
import type { Provider } from './provider/identity-provider.js';
import { createTenantOptions } from './sandbox-options.js';
import type { SandboxState } from './sandbox-state.js';
import { personOf } from './seed/seed.js';
import { escape, page, pageHeaders } from './server/html-page.js';
import { END_SESSION_PATH, OPERATIONS } from './server/operations.js';
import type { SandboxRequest } from './server/request-log.js';
import { sendJson, sendReply } from './server/sandbox-server.js';

const STYLE = `
body { max-width: 60rem }
h2 { margin: 2rem 0 .5rem; font-size: 1.15rem }
ol, ul { margin: 0; padding: 0; list-style: none }
li { padding: .4rem 0; border-bottom: 1px solid var(--line) }
code, time { font: .875rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
small { display: block; overflow-wrap: anywhere }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end }
label { font-size: .875rem } select, input { display: block; box-sizing: border-box; height: 2.6rem; padding: .45rem; font: inherit } input { width: 4rem }
form button { width: auto; margin: 0 }
.s2, .s3 { color: light-dark(#18713a, #6fd08c) } .s4, .s5, .sn { color: light-dark(#b3261e, #ff9d94) }
`;

const SCRIPT = `
const state = document.getElementById('state');
const activity = document.getElementById('activity');
async function update() {
  let text = 'Live.';
  try {
    const page = new DOMParser().parseFromString(await (await fetch('/sandbox')).text(), 'text/html');
    const { innerHTML } = page.getElementById('activity');
    if (activity.innerHTML !== innerHTML) activity.innerHTML = innerHTML;
  } catch {
    text = 'The sandbox has ended. This page waits for the next one.';
  }
  if (state.textContent !== text) state.textContent = text;
  setTimeout(update, 500);
}
update();
async function send(method, body) {
  const reply = await fetch('/sandbox/faults', { method, body });
  document.getElementById('sent').textContent = reply.ok ? '' : await reply.text();
}
document.getElementById('faults').addEventListener('submit', (event) => {
  event.preventDefault();
  const { operation, tenant, times } = event.target.elements;
  const match = { operation: operation.value, ...(tenant.value && { tenant: tenant.value }) };
  const { fault } = event.submitter.dataset;
  if (!fault) return send('DELETE');
  return send('POST', JSON.stringify({ match, fault: JSON.parse(fault), times: Number(times.value) }));
});
`;

const HEADERS = pageHeaders(SCRIPT, STYLE);

const SECRET = /secret|token|code$|verifier|assertion|password|key/i;

/** A button for each kind, which adds this fault. */
const BUTTONS: readonly (readonly [label: string, fault: Fault])[] = [
  ['Status 503', { kind: 'status', status: 503, headers: { 'retry-after': '2' } }],
  ['HTML, 200', { kind: 'body', body: '<html>', contentType: 'text/html' }],
  ['3 s late', { kind: 'delay', ms: 3000 }],
  ['Reset', { kind: 'reset' }],
];

const TEXT = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };

export function isConsole({ url = '' }: IncomingMessage): boolean {
  return /^\/sandbox(?:[/?]|$)/.test(url);
}

/** Serves the page `/sandbox`, the credentials of the tenants, access tokens of people, and faults. */
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
        return sendReply(response, 200, HEADERS, renderConsole(state));
      case 'GET /sandbox/tenants':
        return sendJson(response, 200, { tenants: tenantsOptions(state) });
      case 'GET /sandbox/token': {
        const person = personOf(state.seed, searchParams.get('person') ?? '');
        return sendReply(response, 200, TEXT, await issueAccessToken(provider, person));
      }
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
 * something, or whose reply that page could read. A link of another page may lead here.
 */
function isOwnRequest({ method, headers }: IncomingMessage): boolean {
  const { host, origin, 'sec-fetch-site': site = 'none' } = headers;
  return origin === undefined
    ? method === 'GET' || site === 'none' || site === 'same-origin'
    : origin === `http://${host}`;
}

/** Its script requests the page again and again, for the activity. */
function renderConsole(state: SandboxState): string {
  return page(
    'Requests and faults',
    `<h1>Requests and faults</h1>
    <p>Of the REST API and identity provider at ${code(state.url)}. <span id="state" role="status"></span></p>
    <p><a href="${END_SESSION_PATH}">Sign out</a> at the identity provider, to sign in as another person.</p>
    <h2>Faults</h2>
    ${renderButtons(state)}
    <div id="activity">${renderActivity(state)}</div>
    <script>${SCRIPT}</script>`,
    STYLE,
  );
}

function renderButtons({ seed }: SandboxState): string {
  const options = (values: readonly string[]) =>
    values.map((value) => `<option>${escape(value)}</option>`).join('');
  const buttons = BUTTONS.map(
    ([label, fault]) => `<button data-fault="${escape(JSON.stringify(fault))}">${label}</button>`,
  );
  return `<form id="faults">
      <label>Operation <select name="operation">${options(OPERATIONS)}</select></label>
      <label>Tenant <select name="tenant"><option value="">any</option>${options(seed.tenants.map(({ key }) => key))}</select></label>
      <label>Times <input name="times" type="number" min="1" value="1" required /></label>
      ${buttons.join('\n')}
      <button formnovalidate>Remove all</button>
    </form>
    <p id="sent" role="status"></p>`;
}

/** The last requests, the newest first, and the faults that are still to be applied. */
function renderActivity({ log, faults }: SandboxState): string {
  const pending = faults.toJSON().map((fault) => `<li>${code(JSON.stringify(fault))}</li>`);
  const requests = log.requests.slice(-100).toReversed().map(renderRequest);
  return `<h2>Pending faults</h2><ul>${pending.join('') || '<li>None.</li>'}</ul>
    <h2>Requests</h2><ol>${requests.join('') || '<li>None yet.</li>'}</ol>`;
}

function renderRequest(request: SandboxRequest): string {
  const { at, method, path, headers, tenantKey = '', fault, aborted } = request;
  const reply = request.status ?? (aborted ? 'no reply' : 'under way');
  const tenantId = headers['x-tenant-id'];
  const details = [
    ...parametersOf({ ...request.query, ...request.body }),
    tenantId && `X-Tenant-Id: ${String(tenantId)}`,
    fault && `fault: ${fault}`,
  ].filter(Boolean);
  return `<li><time>${new Date(at).toLocaleTimeString('en-GB')}</time> <span class="s${String(reply)[0]}">${reply}</span>
    ${escape(tenantKey)} ${code(`${method} ${path}`)}<small>${escape(details.join(' · '))}</small></li>`;
}

function parametersOf(values: ParsedUrlQuery): string[] {
  return Object.entries(values)
    .slice(0, 30)
    .map(([name, value]) => `${name.slice(0, 200)}=${SECRET.test(name) ? '…' : String(value).slice(0, 200)}`);
}

function code(text: string): string {
  return `<code>${escape(text)}</code>`;
}
