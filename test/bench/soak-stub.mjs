/** The service of the soak: all tenants of one process, of which one fails at random once it is told to. */
import { createServer } from 'node:http';
import { seededRandom } from './harness.mjs';

const [ill, seed, large] = process.argv.slice(2);
const random = seededRandom(Number(seed) + 1);
const RECORDS = Array.from({ length: 50 }, (_, index) => ({
  id: `exhibitor-${index}`,
  name: `Exhibitor ${index}`,
}));
const TOO_LARGE = Buffer.alloc(6_000_000, ' ');
let hasFaults = false;

/** Each with its share of the requests of the tenant that fails; the rest is answered. */
const FAULTS = [
  [0.1, ({ response }) => response.writeHead(500).end()],
  [0.1, ({ response }) => response.writeHead(503, { 'retry-after': '1' }).end()],
  [0.05, ({ response }) => response.writeHead(429, { 'retry-after': '2' }).end()],
  [0.05, ({ response }) => response.writeHead(401).end()],
  [0.1, ({ request }) => request.socket.resetAndDestroy()],
  [0.1, () => undefined],
  [0.05, ({ response, body }) => response.writeHead(200, headers(body)).write(body.subarray(0, 20))],
  [
    0.05,
    ({ request, response, body }) =>
      response.writeHead(200, headers(body)).write(body.subarray(0, 20), () => request.socket.destroy()),
  ],
  [0.05, ({ response }) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
  [
    Number(large),
    ({ response }) => response.writeHead(200, { 'content-type': 'application/json' }).end(TOO_LARGE),
  ],
];

createServer((request, response) => {
  request.resume();
  const url = new URL(request.url, 'http://stub');
  const [, tenant] = url.pathname.split('/');
  const body = Buffer.from(JSON.stringify(answer(url)));
  const fault = tenant === ill && hasFaults ? pick() : undefined;
  if (fault !== undefined) {
    fault({ request, response, body });
  } else {
    response.writeHead(200, headers(body)).end(body);
  }
}).listen(0, '127.0.0.1', function () {
  process.send(`http://127.0.0.1:${this.address().port}`);
});

function pick() {
  let chance = random();
  return FAULTS.find(([share]) => (chance -= share) < 0)?.[1];
}

function answer(url) {
  if (url.pathname.endsWith('/connect/token')) {
    return { access_token: 'token-of-the-soak', expires_in: 20, token_type: 'Bearer', scope: 'idp_api' };
  }
  if (url.pathname.includes('/contactEmail/')) {
    return RECORDS.slice(0, 2);
  }
  const currentPage = Number(url.searchParams.get('Page'));
  const metadata = { currentPage, totalCount: 1_000, totalPages: 20, itemsPerPage: 50 };
  return {
    paginationMetadata: { ...metadata, hasPreviousPage: currentPage > 1, hasNextPage: currentPage < 20 },
    data: RECORDS,
  };
}

function headers(body) {
  return { 'content-type': 'application/json', 'content-length': body.length };
}

process.on('message', (message) => {
  hasFaults = message === 'faults';
  process.send('done');
});
process.on('disconnect', () => process.exit());
