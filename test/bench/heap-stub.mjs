/** The service and the provider of `heap.mjs`. A code contains the nonce of its login and the client. */
import { createPublicKey } from 'node:crypto';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { PRIVATE_KEY, signedToken } from './guards-credentials.mjs';

const jwk = { ...createPublicKey(PRIVATE_KEY).export({ format: 'jwk' }), alg: 'RS256', use: 'sig' };
const accessToken = `${'a'.repeat(40)}.${'b'.repeat(600)}.${'c'.repeat(171)}`;
const metadata = { currentPage: 1, totalCount: 1, totalPages: 1, itemsPerPage: 50 };
const exhibitor = { id: 'exhibitor-1', name: 'Exhibitor 1' };

async function answer(request) {
  if (request.url === '/keys') {
    return { keys: [jwk] };
  }
  if (request.url !== '/connect/token') {
    return request.url.includes('/contactEmail/')
      ? [exhibitor]
      : { paginationMetadata: metadata, data: [exhibitor] };
  }
  const code = new URLSearchParams(await text(request)).get('code');
  const token = { access_token: accessToken, expires_in: 3600, token_type: 'Bearer', scope: 'idp_api' };
  return code === null ? token : { ...token, id_token: signedToken('JWT', JSON.parse(code)) };
}

const server = createServer(async (request, response) => {
  const body = JSON.stringify(await answer(request));
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send(`http://127.0.0.1:${server.address().port}`));
process.on('disconnect', () => process.exit());
