/**
 * The second part of the soak: the service of one of two tenants answers 429, then 503, then nothing, then 401. How much is sent to it
 * meanwhile, what does the other tenant notice, and how soon do calls succeed again?
 *
 * SOAK_OUTAGE_SECONDS of each (60). SOAK_PICTURE: file for the picture of docs/speed.md (SVG).
 */
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { firstValueFrom } from 'rxjs';
import { check, contextOf, printTable, tenantAt } from './harness.mjs';

const SECONDS = Number(process.env.SOAK_OUTAGE_SECONDS ?? 60);
const BETWEEN_SECONDS = 10;
/** Calls a second and tenant. */
const RATE = 40;
/** Requests a second that the service allows while it answers 429 to others. */
const ALLOWED = 20;
const ATTEMPTS = 3;
/** Retries of a full budget. */
const BUDGET = 100;
/** The longest rest that applies at the end of each outage, in ms. */
const RESTS = { 429: 1_000, 503: 0, silence: 5_000, 401: 0 };
const RECOVERY = 2_000;
const WELL = 'well';

let outage = WELL;
let second = { at: 0, allowed: 0 };
const requests = { api: 0, tokens: 0 };

const page = JSON.stringify({
  paginationMetadata: { currentPage: 1, totalCount: 0, totalPages: 0, itemsPerPage: 50 },
  data: [],
});
const send = (response, status, body = '{}', headers = {}) =>
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);

/** True for the requests that it allows in this second. */
function isAllowed() {
  const at = Math.floor(performance.now() / 1000);
  second = second.at === at ? second : { at, allowed: 0 };
  second.allowed += 1;
  return second.allowed <= ALLOWED;
}

function answer(request, response) {
  const isIll = request.url.startsWith('/ill');
  if (request.method === 'POST') {
    requests.tokens += isIll ? 1 : 0;
    const token = { access_token: `token-${requests.tokens}`, expires_in: 3600, token_type: 'Bearer' };
    return send(response, 200, JSON.stringify(token));
  }
  requests.api += isIll ? 1 : 0;
  if (!isIll || outage === WELL || (outage === '429' && isAllowed())) {
    return send(response, 200, page);
  }
  if (outage !== 'silence') {
    send(response, Number(outage), '{}', outage === '429' ? { 'retry-after': '1' } : {});
  }
}

const server = createServer(answer);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}`;
const tenants = Object.fromEntries(
  ['ill', 'fine'].map((key) => [key, { ...tenantAt(`${url}/${key}`), tenantId: key }]),
);
const { exhibitors, close } = await contextOf({
  tenants,
  http: { deadline: 3_000, attemptTimeout: 1_000, attempts: ATTEMPTS },
});

console.log(`\n## Outages of ${SECONDS} s, ${RATE} calls a second and tenant\n`);
/** Of the tenant that fails, by second: its requests, and its calls that failed. */
const curve = [];
const marks = [];
const rows = [];

await phase(WELL, BETWEEN_SECONDS);
for (const kind of ['429', '503', 'silence', '401']) {
  marks.push([curve.length, kind]);
  const during = await phase(kind, SECONDS);
  const after = await phase(WELL, BETWEEN_SECONDS);
  report(kind, during, after);
}
printTable(['outage', 'calls', 'requests', 'token requests', 'failed calls', 'recovery, s'], rows);
await close();
server.closeAllConnections();
server.close();
if (process.env.SOAK_PICTURE !== undefined) {
  writeFileSync(process.env.SOAK_PICTURE, picture());
}

/** Calls at a steady rate for so many seconds, whether or not the ones before have ended. */
async function phase(kind, seconds) {
  outage = kind;
  const before = { ...requests };
  const seen = { calls: 0, failed: 0, otherFailed: 0, lastFailed: 0 };
  const began = performance.now();
  const first = curve.length;
  let sentBefore = requests.api;
  for (let turn = 0; turn < seconds * RATE; turn += 1) {
    const at = first + Math.floor(turn / RATE);
    curve[at] ??= { sent: 0, failed: 0 };
    seen.calls += 1;
    const startedAt = performance.now() - began;
    void count(seen, curve[at], startedAt);
    const due = began + ((turn + 1) * 1000) / RATE;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    curve[at].sent += requests.api - sentBefore;
    sentBefore = requests.api;
  }
  // Calls of an outage may end after it: its counts are complete with those of the next phase.
  const counts = { requests: requests.api - before.api, tokens: requests.tokens - before.tokens };
  return { ...counts, seen };
}

/** One call of each tenant. */
async function count(seen, atSecond, startedAt) {
  const [ill, fine] = await Promise.allSettled(
    ['ill', 'fine'].map((tenant) => firstValueFrom(exhibitors.list('event', { tenant }))),
  );
  seen.otherFailed += fine.status === 'fulfilled' ? 0 : 1;
  if (ill.status === 'rejected') {
    seen.failed += 1;
    atSecond.failed += 1;
    seen.lastFailed = Math.max(seen.lastFailed, startedAt);
  }
}

function report(kind, during, after) {
  const { calls, failed, otherFailed } = during.seen;
  const recovery = after.seen.lastFailed / 1000;
  rows.push([kind, calls, during.requests, during.tokens, failed, recovery.toFixed(2)]);
  const most = {
    429: 2 * ALLOWED * (SECONDS + 1),
    503: calls + BUDGET,
    silence: calls + BUDGET,
    // A token that is refused is sent once more with the next one.
    401: calls + during.tokens * RATE,
  }[kind];
  check(`${kind}: requests ≤ ${most}`, during.requests, during.requests <= most);
  const mostTokens = kind === '401' ? SECONDS / 10 + 1 : 0;
  check(`${kind}: token requests ≤ ${mostTokens}`, during.tokens, during.tokens <= mostTokens);
  check(
    `${kind}: calls of the other tenant that failed = 0`,
    otherFailed,
    otherFailed + after.seen.otherFailed === 0,
  );
  const limit = (RESTS[kind] + RECOVERY) / 1000;
  check(`${kind}: all calls succeed again after ≤ ${limit} s`, recovery.toFixed(2), recovery <= limit);
}

/** Requests and failed calls of each second, as two lines. */
function picture() {
  const [width, height, left, bottom] = [900, 260, 40, 30];
  const most = Math.max(...curve.flatMap(({ sent, failed }) => [sent, failed]));
  const x = (at) => (left + (at * (width - left)) / curve.length).toFixed(1);
  const y = (value) => (height - bottom - (value * (height - bottom - 30)) / most).toFixed(1);
  const line = (name, color) =>
    `<polyline fill="none" stroke="${color}" stroke-width="2" points="${curve.map((one, at) => `${x(at)},${y(one[name])}`).join(' ')}"/>`;
  const band = ([at, kind]) =>
    `<rect x="${x(at)}" y="20" width="${(SECONDS * (width - left)) / curve.length}" height="${height - bottom - 20}" fill="#8884" />` +
    `<text x="${x(at)}" y="15">${kind}</text>`;
  const scale = [0, RATE, most].map((value) => `<text x="0" y="${y(value)}">${value}</text>`).join('');
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#888">` +
    `${marks.map(band).join('')}${scale}${line('sent', '#2a78d6')}${line('failed', '#d64a2a')}` +
    `<text x="${left}" y="${height - 8}" fill="#2a78d6">requests a second</text>` +
    `<text x="${left + 130}" y="${height - 8}" fill="#d64a2a">failed calls of ${RATE} a second</text></svg>\n`
  );
}
