import { Agent, request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { ExhibitorSandbox, Fault } from 'nestjs-exhibitor/testing';
import { apiHeaders, askToken, eventUrl, lookupUrl } from './rest-client.js';
import { rawRequest, type WireReply, type Patience } from './wire.js';
import { eventually } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';
import {
  closeIdle,
  drip,
  gzipBomb,
  largeBody,
  redirect,
  stall,
  truncate,
  type AnyFault,
} from '../support/faults.js';

const OPERATIONS = ['token', 'list', 'lookup'] as const;
type Operation = (typeof OPERATIONS)[number];

describe('faults of the sandbox', () => {
  let sandbox: ExhibitorSandbox;
  let headers: Record<string, string>;
  beforeAll(async () => {
    sandbox = await startSandbox();
    headers = await apiHeaders(sandbox, 'acme');
  });
  afterEach(() => sandbox?.clearFaults());
  afterAll(() => sandbox?.stop());

  /** One valid request of this operation on its own connection. */
  const ask = (operation: Operation, patience?: Patience): Promise<WireReply> => {
    if (operation === 'token') {
      const { authUrl, clientId, clientSecret } = sandbox.tenantOptions('acme');
      const form = { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret };
      return rawRequest(
        `${authUrl}/connect/token`,
        {
          method: 'POST',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
          body: new URLSearchParams(form).toString(),
        },
        patience,
      );
    }
    const url =
      operation === 'list'
        ? eventUrl(sandbox, 'world-2026')
        : lookupUrl(sandbox, 'world-2026', 'sam.several@example.com');
    return rawRequest(url, { headers }, patience);
  };

  const met = async (operation: Operation, fault: AnyFault, patience?: Patience): Promise<WireReply> => {
    sandbox.failNext(operation, fault);
    const seen = await ask(operation, patience);
    expect(sandbox.requests.at(-1)).toMatchObject({ operation, fault: fault.kind });
    return seen;
  };

  /** The status of a list request of a tenant. */
  const list = async (key: string) =>
    (await fetch(eventUrl(sandbox, 'boutique-2026'), { headers: await apiHeaders(sandbox, key) })).status;

  describe.each(OPERATIONS)('on %s', (operation) => {
    it('answers a status with its headers', async () => {
      const seen = await met(operation, { kind: 'status', status: 503, headers: { 'retry-after': '7' } });

      expect(seen.head).toMatch(/^http\/1\.1 503 /);
      expect(seen.head).toContain('retry-after: 7');
      expect(JSON.parse(seen.body)).toMatchObject({ error: 'sandbox_fault' });
    });

    it.each<[string, Fault, string]>([
      ['truncated JSON', { kind: 'body', body: '{"data":[' }, '{"data":['],
      ['HTML with 200', { kind: 'body', body: '<p>Hi</p>', contentType: 'text/html' }, '<p>Hi</p>'],
      ['an empty 200', { kind: 'body', body: '' }, ''],
      ['invalid UTF-8', { kind: 'body', body: Buffer.from([0x22, 0xff, 0xfe, 0x22]) }, '"\u00ff\u00fe"'],
    ])('answers %s', async (_what, fault, body) => {
      const seen = await met(operation, fault);

      expect(seen.head).toMatch(/^http\/1\.1 200 /);
      expect(seen.head).toContain(
        `content-type: ${fault.kind === 'body' && fault.contentType ? fault.contentType : 'application/json'}`,
      );
      expect(seen.body).toBe(body);
    });

    it('answers late with the normal reply', async () => {
      const seen = await met(operation, { kind: 'delay', ms: 150 }, { patience: 3000 });

      expect(seen.ms).toBeGreaterThan(145);
      expect(seen.head).toMatch(/^http\/1\.1 200 /);
      expect(Buffer.byteLength(seen.bytes.subarray(seen.bytes.indexOf('\r\n\r\n') + 4))).toBe(lengthOf(seen));
    });

    it('resets the connection before any byte', async () => {
      expect(await met(operation, { kind: 'reset', at: 'before-headers' })).toMatchObject({
        end: 'reset',
        text: '',
      });
    });

    it('resets the connection in the middle of the headers', async () => {
      const seen = await met(operation, { kind: 'reset', at: 'mid-headers' }, { patience: 3000 });

      expect(seen).toMatchObject({ end: 'reset', head: undefined });
      expect(seen.text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    });

    it.each<[string, AnyFault, WireReply['end']]>([
      ['resets the connection', { kind: 'reset', at: 'mid-body' }, 'reset'],
      ['stalls', stall('mid-body'), 'open'],
      ['closes the connection', truncate(), 'closed'],
    ])('%s in the middle of the body', async (_what, fault, end) => {
      const seen = await met(operation, fault, { patience: end === 'open' ? 300 : 3000 });

      expect(seen.head).toMatch(/^http\/1\.1 200 /);
      expect(seen.end).toBe(end);
      expect(seen.body.length).toBeGreaterThan(0);
      expect(seen.body.length).toBeLessThan(lengthOf(seen));
    });

    it('stalls before any byte, and notices that the client left', async () => {
      expect(await met(operation, stall('before-headers'))).toMatchObject({
        end: 'open',
        text: '',
      });
      await eventually(() => sandbox.openRequests === 0);

      expect(sandbox.requests.at(-1)).toMatchObject({ aborted: true, status: undefined });
    });

    it('unpacks a gzip bomb', async () => {
      const bytes = 3_000_000;
      const seen = await met(operation, gzipBomb(bytes), { patience: 3000 });

      expect(seen.head).toContain('content-encoding: gzip');
      expect(seen.bytes.length).toBeLessThan(bytes / 100);
      const unpacked = gunzipSync(unchunked(seen));
      expect(unpacked).toHaveLength(bytes);
      expect(JSON.parse(unpacked.toString())).toHaveLength(bytes - 2);
    });

    it('sends a large body', async () => {
      const bytes = 3_000_000;
      const body = unchunked(await met(operation, largeBody(bytes), { patience: 3000 }));

      expect(body).toHaveLength(bytes);
      expect(JSON.parse(body.toString())).toHaveLength(bytes - 2);
    });

    it('redirects', async () => {
      const { head } = await met(operation, redirect('https://elsewhere.example/'));

      expect(head).toMatch(/^http\/1\.1 302 /);
      expect(head).toContain('location: https://elsewhere.example/');
    });

    it('sends the normal reply and closes the connection without announcing it', async () => {
      const seen = await met(operation, closeIdle(), { listenOn: true, patience: 3000 });

      expect(seen.head).not.toContain('connection: close');
      expect(seen.body.length).toBe(lengthOf(seen));
      expect(seen.end).toBe('closed');
    });
  });

  it.each(['list', 'token'] as const)('drips the normal reply of %s byte by byte', async (operation) => {
    sandbox.setExhibitors('world-2026', [], 'acme');
    const seen = await met(operation, drip(1), { patience: 3000 });

    expect(seen.body).toHaveLength(lengthOf(seen));
    expect(() => JSON.parse(seen.body)).not.toThrow();
    expect(seen.spread).toBeGreaterThan(lengthOf(seen) * 0.5);
  });

  it('closes a reused connection: the next request on it fails', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const again = (): Promise<number | string> =>
      new Promise((resolve) => {
        request(eventUrl(sandbox, 'boutique-2026'), { agent, headers }, (reply) => {
          reply.resume().once('end', () => resolve(reply.statusCode ?? 0));
        })
          .once('error', ({ message }) => resolve(message))
          .end();
      });

    expect(await again()).toBe(200);
    sandbox.failNext('list', { kind: 'reset', at: 'before-headers' });
    expect(await again()).toMatch(/ECONNRESET|socket hang up/);
    agent.destroy();
  });

  it.each([
    ['authorize', '/connect/authorize'],
    ['resume', '/connect/authorize/some'],
    ['login', '/connect/login/some'],
    ['userinfo', '/connect/userinfo'],
    ['keys', '/connect/jwks'],
    ['discovery', '/.well-known/openid-configuration'],
    ['other', '/'],
  ] as const)('apply to %s', async (operation, path) => {
    sandbox.failNext(operation, { kind: 'status', status: 503 });
    const statuses = [(await fetch(sandbox.url + path)).status, (await fetch(sandbox.url + path)).status];

    expect(statuses[0]).toBe(503);
    expect(statuses[1]).not.toBe(503);
  });

  it('answers 500 for a fault that cannot be sent, and continues', async () => {
    sandbox.failNext('list', { kind: 'status', status: 503, headers: { 'x-broken': 'a\nb' } });
    const statuses = [await list('acme'), await list('acme')];

    expect(statuses).toEqual([500, 200]);
  });

  it('are listed by HTTP, also those without an end', async () => {
    const fault: Fault = { kind: 'delay', ms: 1 };
    sandbox.failNext({ operation: ['list', 'lookup'] }, fault, Infinity);
    const pending = await fetch(`${sandbox.url}/sandbox/faults`);

    expect(await pending.json()).toEqual([
      { match: { operation: ['list', 'lookup'] }, fault, remaining: 'Infinity' },
    ]);
  });

  describe('apply to exactly the requests that match', () => {
    const FAULT: Fault = { kind: 'status', status: 418 };
    it('the given number of times, the oldest fault first', async () => {
      sandbox.failNext('list', FAULT, 2);
      sandbox.failNext('list', { kind: 'status', status: 429 });

      expect([await list('acme'), await list('acme'), await list('acme'), await list('acme')]).toEqual([
        418, 418, 429, 200,
      ]);
    });

    it('until they are cleared, with Infinity', async () => {
      sandbox.failNext('list', FAULT, Infinity);
      const before = [await list('acme'), await list('globex'), await list('acme')];
      sandbox.clearFaults();

      expect([...before, await list('acme')]).toEqual([418, 418, 418, 200]);
    });

    it('of one tenant', async () => {
      sandbox.failNext({ operation: 'list', tenant: 'globex' }, FAULT, Infinity);

      expect([await list('acme'), await list('globex'), await list('initech')]).toEqual([200, 418, 200]);
    });

    it('of one tenant at the token endpoint', async () => {
      sandbox.failNext({ operation: 'token', tenant: 'globex' }, FAULT, Infinity);

      expect((await askToken(sandbox.tenantOptions('acme'))).status).toBe(200);
      expect((await askToken(sandbox.tenantOptions('globex'))).status).toBe(418);
    });

    it('of one grant type', async () => {
      sandbox.failNext({ grantType: 'authorization_code' }, FAULT);

      expect((await askToken(sandbox.tenantOptions('acme'))).status).toBe(200);
      expect(
        (await askToken(sandbox.tenantOptions('acme'), { grant_type: 'authorization_code' })).status,
      ).toBe(418);
    });

    it.each([0, -1, 1.5, Number.NaN])('and cannot happen %d times', (times) => {
      expect(() => sandbox.failNext('list', FAULT, times)).toThrow(RangeError);
    });
  });
});

function lengthOf({ head = '' }: WireReply): number {
  return Number(/content-length: (\d+)/.exec(head)?.[1]);
}

/** Decodes the chunked transfer coding of a body (RFC 9112 §7.1). */
function unchunked({ bytes }: WireReply): Buffer {
  const parts: Buffer[] = [];
  let at = bytes.indexOf('\r\n\r\n') + 4;
  for (;;) {
    const line = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.subarray(at, line).toString(), 16);
    if (!(size > 0)) {
      return Buffer.concat(parts);
    }
    parts.push(bytes.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}
