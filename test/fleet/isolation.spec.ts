import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { describeWithRedis } from '../support/redis.js';
import { IsolationProof } from './isolation-proof.js';
import { mixUpIn, type Traced } from './isolation-world.js';

const TENANTS = 500;
const OPERATIONS = 5_000;

const seed = Number(process.env['ISOLATION_SEED'] ?? Math.floor(Math.random() * 1e9));

describeWithRedis(`${TENANTS} tenants on two processes with one Redis (ISOLATION_SEED=${seed})`, (path) => {
  let proof: IsolationProof;
  beforeAll(async () => {
    proof = await IsolationProof.start(path, TENANTS, seed);
  }, 60_000);
  afterAll(() => proof?.stop());

  it('never get the token, the answer or the person of another tenant, in mixed operations', async () => {
    const done = await proof.run(OPERATIONS);
    process.stderr.write(
      `isolation: ${done} operations, ${proof.checked} requests: ${JSON.stringify(proof.counts)}\n`,
    );
    expect(proof.findings).toEqual([]);
    const share = (kind: string, result: string): number => {
      const all = Object.entries(proof.counts).filter(([name]) => name.startsWith(`${kind} `));
      return (proof.counts[`${kind} ${result}`] ?? 0) / all.reduce((sum, [, count]) => sum + count, 0);
    };
    for (const kind of ['token', 'list', 'lookup', 'fresh', 'login', 'logout']) {
      expect([kind, share(kind, 'ok') > 0.5]).toEqual([kind, true]);
    }
    expect(share('cookie own', '200')).toBeGreaterThan(0.4);
    expect(share('bearer own', '200')).toBeGreaterThan(0.6);
    expect([share('cookie other', '401'), share('bearer other', '401')]).toEqual([1, 1]);
    expect(proof.checked).toBeGreaterThan(done / 10);
  }, 280_000);

  it('would be found out by one request with the id, the token or the secret of another', () => {
    const good: Traced = {
      operation: 'lookup',
      tenantId: 'id-of-t1',
      clientId: 't1-api',
      tokenClaims: { client_id: 't1-api' },
      body: {},
    };
    const token: Traced = {
      operation: 'token',
      clientId: 't1-web',
      body: { client_secret: 'web secret of t1' },
    };
    expect([mixUpIn(good), mixUpIn(token)]).toEqual([undefined, undefined]);
    for (const wrong of [
      { ...good, tenantId: 'id-of-t2' },
      { ...good, tokenClaims: { client_id: 't2-api' }, clientId: 't2-api' },
      { ...good, tokenClaims: undefined, clientId: undefined },
      { ...token, clientId: 't2-web' },
      { ...token, body: { client_secret: 'web secret of t2' } },
    ]) {
      expect(mixUpIn(wrong)).toEqual(expect.any(String));
    }
  });
});
