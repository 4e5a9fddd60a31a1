/** A service that costs little: one token, one full page of exhibitors and one lookup of two, all made once. */
import { createServer } from 'node:http';

const json = (value) => Buffer.from(JSON.stringify(value));

const token = json({
  access_token: `${'a'.repeat(40)}.${'b'.repeat(600)}.${'c'.repeat(171)}`,
  expires_in: 3600,
  token_type: 'Bearer',
  scope: 'idp_api',
});

const exhibitors = Array.from({ length: 50 }, (_, index) => ({
  id: `exhibitor-${index}`,
  name: `Exhibitor number ${index}`,
  hall: `Hall ${index % 7}`,
  booths: [{ number: `${index % 7}.${index}`, squareMetres: 12 + index }],
  website: `https://exhibitor-${index}.example.com`,
  products: ['machines', 'services', 'software'],
}));

const page = json({
  paginationMetadata: {
    currentPage: 1,
    totalCount: 50,
    totalPages: 1,
    hasPreviousPage: false,
    hasNextPage: false,
    itemsPerPage: 50,
  },
  data: exhibitors,
});

const lookup = json(exhibitors.slice(0, 2));

const bodyOf = (url) => (url.includes('/contactEmail/') ? lookup : page);

let tokens = 0;
const server = createServer((request, response) => {
  request.resume();
  const isToken = request.url === '/connect/token';
  if (request.url === '/tokens') {
    return response.end(String(tokens));
  }
  if (isToken) {
    tokens += 1;
  }
  const body = isToken ? token : bodyOf(request.url);
  response.writeHead(200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': body.length,
  });
  return response.end(body);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send(`http://127.0.0.1:${server.address().port}`));
process.on('disconnect', () => process.exit());
