/**
 * The service of the benchmarks. A reply costs little, since its body is made once. An event id may say how many pages the event has
 * and how many milliseconds each takes: `pages-200-latency-20`. Arguments: lifetime of the tokens in seconds, and for the soak the
 * seed of its faults and the share of replies that are too large.
 */
import { createServer } from 'node:http';
import { seededRandom } from './harness.mjs';

const [lifetime = 3600, seed = 0, large = 0] = process.argv.slice(2).map(Number);
const ITEMS = 50;
const TOO_LARGE = Buffer.alloc(6_000_000, ' ');
const random = seededRandom(seed);
let hasFaults = false;

const token = {
  access_token: `${'a'.repeat(40)}.${'b'.repeat(600)}.${'c'.repeat(171)}`,
  expires_in: lifetime,
  token_type: 'Bearer',
  scope: 'idp_api',
};

function rowsOf(page) {
  return Array.from({ length: ITEMS }, (_, index) => ({
    id: `exhibitor-${page}-${index}`,
    name: `Exhibitor number ${page * ITEMS + index}`,
    hall: `Hall ${index % 7}`,
    booths: [{ number: `${index % 7}.${index}`, squareMetres: 12 + index }],
    website: `https://exhibitor-${index}.example.com`,
  }));
}

function pageOf(page, totalPages) {
  const paginationMetadata = {
    currentPage: page,
    totalCount: totalPages * ITEMS,
    totalPages,
    hasPreviousPage: page > 1,
    hasNextPage: page < totalPages,
    itemsPerPage: ITEMS,
  };
  return { paginationMetadata, data: rowsOf(page) };
}

const replies = new Map();

function replyTo(path) {
  const known = replies.get(path) ?? makeReply(new URL(path, 'http://stub'));
  replies.set(path, known);
  return known;
}

function makeReply({ pathname, searchParams }) {
  const [, pages = 1, latency = 0] = /pages-(\d+)-latency-(\d+)/.exec(pathname) ?? [];
  const answer = () => {
    if (pathname.endsWith('/connect/token')) {
      return token;
    }
    return pathname.includes('/contactEmail/')
      ? rowsOf(1).slice(0, 2)
      : pageOf(Number(searchParams.get('Page')), Number(pages));
  };
  return { body: Buffer.from(JSON.stringify(answer())), latency: Number(latency) };
}

function head(body) {
  return { 'content-type': 'application/json', 'content-length': body.length };
}

function send(response, body) {
  response.writeHead(200, head(body)).end(body);
}

/** Each with its share of the requests. */
const FAULTS = [
  [0.1, ({ response }) => response.writeHead(500).end()],
  [0.1, ({ response }) => response.writeHead(503, { 'retry-after': '1' }).end()],
  [0.05, ({ response }) => response.writeHead(429, { 'retry-after': '2' }).end()],
  [0.05, ({ response }) => response.writeHead(401).end()],
  [0.1, ({ request }) => request.socket.resetAndDestroy()],
  [0.1, () => undefined],
  [0.05, ({ response, body }) => response.writeHead(200, head(body)).write(body.subarray(0, 20))],
  [
    0.05,
    ({ request, response, body }) =>
      response.writeHead(200, head(body)).write(body.subarray(0, 20), () => request.socket.destroy()),
  ],
  [0.05, ({ response }) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
  [large, ({ response }) => response.writeHead(200, { 'content-type': 'application/json' }).end(TOO_LARGE)],
];

function pickFault() {
  let chance = random();
  return FAULTS.find(([share]) => (chance -= share) < 0)?.[1];
}

const server = createServer((request, response) => {
  request.resume();
  const { body, latency } = replyTo(request.url);
  const fault = hasFaults ? pickFault() : undefined;
  if (fault !== undefined) {
    fault({ request, response, body });
  } else if (latency === 0) {
    send(response, body);
  } else {
    setTimeout(send, latency, response, body);
  }
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send(`http://127.0.0.1:${server.address().port}`));
process.on('message', (message) => {
  hasFaults = message === 'faults';
  process.send('done');
});
process.on('disconnect', () => process.exit());
