/**
 * A service of large events. The event id says how many pages it has and how many milliseconds each reply takes:
 * `pages-200-latency-20`. Every page is full and its rows are its own; bodies are made beforehand where they are few.
 */
import { createServer } from 'node:http';

const ITEMS = 50;
const bodies = new Map();

const token = Buffer.from(JSON.stringify({ access_token: 'bench', expires_in: 3600, token_type: 'Bearer' }));

function rowsOf(page) {
  return Array.from({ length: ITEMS }, (_, index) => ({
    id: `exhibitor-${page}-${index}`,
    name: `Exhibitor number ${page * ITEMS + index}`,
    hall: `Hall ${index % 7}`,
    booths: [{ number: `${index % 7}.${index}`, squareMetres: 12 + index }],
    website: `https://exhibitor-${index}.example.com`,
  }));
}

function bodyOf(page, totalPages) {
  const key = `${page}/${totalPages}`;
  const known = bodies.get(key);
  if (known) {
    return known;
  }
  const paginationMetadata = {
    currentPage: page,
    totalCount: totalPages * ITEMS,
    totalPages,
    hasPreviousPage: page > 1,
    hasNextPage: page < totalPages,
    itemsPerPage: ITEMS,
  };
  const body = Buffer.from(JSON.stringify({ paginationMetadata, data: rowsOf(page) }));
  bodies.set(key, body);
  return body;
}

function send(response, body) {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
  response.end(body);
}

const server = createServer((request, response) => {
  request.resume();
  const [, pages, latency] = /pages-(\d+)-latency-(\d+)/.exec(request.url) ?? [];
  if (pages === undefined) {
    return send(response, token);
  }
  const page = Number(new URL(request.url, 'http://stub').searchParams.get('Page'));
  const body = bodyOf(page, Number(pages));
  if (latency === '0') {
    return send(response, body);
  }
  return setTimeout(send, Number(latency), response, body);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send(`http://127.0.0.1:${server.address().port}`));
process.on('disconnect', () => process.exit());
