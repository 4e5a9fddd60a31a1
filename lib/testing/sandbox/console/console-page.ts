import type { ParsedUrlQuery } from 'node:querystring';
import { FAULT_KINDS } from '../faults/fault-kinds.js';
import { escape, page, pageHeaders } from '../server/html-page.js';
import type { SandboxRequest } from '../server/request-log.js';
import { END_SESSION_PATH, OPERATIONS } from '../server/operations.js';
import type { SandboxState } from '../sandbox-state.js';

const STYLE = `
body { max-width: 60rem }
h2 { margin: 2rem 0 .5rem; font-size: 1.15rem }
ol, ul { margin: 0; padding: 0; list-style: none }
li { padding: .4rem 0; border-bottom: 1px solid var(--line) }
code, time { font: .875rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
small { display: block; overflow-wrap: anywhere }
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
`;

export const CONSOLE_HEADERS = pageHeaders(SCRIPT, STYLE);

const SECRET = /secret|token|code$|verifier|assertion|password|key/i;

/** Renders the page. Its script requests it again and again, for the activity. */
export function renderConsole(state: SandboxState): string {
  const call = JSON.stringify({ match: 'list', fault: { kind: 'status', status: 503 }, times: 2 });
  const kinds = Object.values(FAULT_KINDS).map(
    ({ example, explanation }) => `<li>${code(JSON.stringify(example))}<small>${explanation}</small></li>`,
  );
  return page(
    'Requests and faults',
    `<h1>Requests and faults</h1>
    <p>Of the REST API and identity provider at ${code(state.url)}. <span id="state" role="status"></span></p>
    <p><a href="${END_SESSION_PATH}">Sign out</a> at the identity provider, to sign in as another person.</p>
    <div id="activity">${renderActivity(state)}</div>
    <h2>How to add and remove faults</h2>
    <p>${code(`curl ${state.url}/sandbox/faults -d '${call}'`)}</p>
    <p>${code(`curl ${state.url}/sandbox/faults -X DELETE`)}</p>
    <p>${code('match')} is one of ${OPERATIONS.join(', ')}, or an object with some of ${code('operation')} (one, or a list of
    several), ${code('tenant')} (its key), ${code('grantType')} and ${code('probability')}, from 0 to 1. ${code('times')} is a
    number, by default 1. If several faults match a request, the oldest is applied. ${code('fault')} is one of these:</p>
    <ul>${kinds.join('')}</ul>
    <h2>How to revoke access tokens</h2>
    <p>${code(`curl '${state.url}/sandbox/tokens?tenant=${encodeURIComponent(state.seed.tenants[0]?.key ?? '')}' -X DELETE`)}, or without a tenant all of them.</p>
    <script>${SCRIPT}</script>`,
    STYLE,
  );
}

/** Renders the last requests, the newest first, and the faults that are still to be applied. */
function renderActivity({ log, faults }: SandboxState): string {
  const pending = faults.toJSON().map((fault) => `<li>${code(JSON.stringify(fault))}</li>`);
  const requests = log.requests.slice(-100).toReversed().map(renderRequest);
  return `<h2>Pending faults</h2><ul>${pending.join('') || '<li>None.</li>'}</ul>
    <h2>Requests</h2><ol>${requests.join('') || '<li>None yet.</li>'}</ol>`;
}

function renderRequest(request: SandboxRequest): string {
  const { at, method, path, headers, tenantKey = '', tenantId, headerTenantKey, fault, aborted } = request;
  const reply = request.status ?? (request.done ? 'no reply' : 'under way');
  const details = [
    ...parametersOf({ ...request.query, ...request.body }),
    headers.authorization && `Authorization: ${/^(Bearer|Basic) /i.exec(headers.authorization)?.[0] ?? ''}…`,
    tenantId && `X-Tenant-Id: ${tenantId} (${headerTenantKey ?? 'of no tenant'})`,
    fault && `fault: ${fault.kind}`,
    aborted && 'aborted by the client',
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
