import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { HttpException } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { ExhibitorsService, TenantRegistry, type ExhibitorModuleOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import type { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';
import { OperatorLines } from '../support/operator-lines.js';
import { pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';
import type { OtherOptions } from '../support/module-options.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(['express', 'fastify'] as const)(
  'the tenant, event and exhibitor of a request on %s',
  (kind) => {
    let host: Host | undefined;
    afterEach(async () => {
      await host?.close();
      host = undefined;
    });

    async function startWith(options: OtherOptions = {}): Promise<Host> {
      host = await startHost({
        kind,
        options: (redirectUri) => ({
          tenants: Object.fromEntries(
            ['acme', 'globex', 'initech'].map((key) => [key, sandbox.tenantOptions(key, { redirectUri })]),
          ),
          resolveTenant: ({ query, headers }) => {
            const named = query['tenant'] ?? headers['x-tenant'];
            return typeof named === 'string' ? named : undefined;
          },
          secrets: [COOKIE_SECRET],
          ...options,
        }),
      });
      return host;
    }

    const eventOf = async (visitor: Visitor, path: string, headers = {}): Promise<unknown> =>
      bodyOf(await visitor.visit(`${host?.url}${path}`, { headers }))['eventId'];

    describe('its tenant', () => {
      it('is the tenant of the person where the request names none', async () => {
        const visitor = await signIn(sandbox, await startWith(), 'sam.several', { tenant: 'globex' });
        expect(bodyOf(await visitor.visit(`${host?.url}/me`))).toMatchObject({
          tenant: 'globex',
          identity: { tenant: 'globex' },
        });
        const mine = bodyOf<{ id: string }[]>(await visitor.visit(`${host?.url}/events/world-2026/mine`));
        expect(mine).toHaveLength(3);
        expect(mine.every(({ id }) => id.startsWith('globex-'))).toBe(true);
      });

      it('is the one that the host returns, and a login at another tenant does not count there', async () => {
        const visitor = await signIn(sandbox, await startWith(), 'sam.several', { tenant: 'acme' });
        sandbox.clearRequests();
        const at = async (tenant: string): Promise<number> =>
          (await visitor.visit(`${host?.url}/events/world-2026/mine`, { headers: { 'x-tenant': tenant } }))
            .status;
        expect(await at('globex')).toBe(401);
        expect(sandbox.requests).toHaveLength(0);
        expect(await at('acme')).toBe(200);
        expect(await at('initech')).toBe(401);
      });

      it('may be resolved asynchronously', async () => {
        const resolveTenant = async (): Promise<string> => {
          await pause(5);
          return 'initech';
        };
        const visitor = await signIn(sandbox, await startWith({ resolveTenant }));
        expect(bodyOf(await visitor.visit(`${host?.url}/me`))).toMatchObject({ tenant: 'initech' });
      });

      it('is required for a login where there are several', async () => {
        const lines = new OperatorLines();
        const { app, url } = await startWith();
        app.useLogger(lines);
        const reply = await fetch(`${url}/auth/login`, { redirect: 'manual' });
        expect(reply.status).toBe(500);
        // The log gets the words.
        const error = 'Internal Server Error';
        expect(await reply.json()).toEqual({
          statusCode: 500,
          message: error,
          error,
          code: 'tenant_required',
        });
        expect(lines.errors.join()).toContain('resolveTenant');
      });

      it.each(['cookie', 'host', 'bearer'] as const)(
        'is unknown where the host answers an empty text, without asking its source (session: %s)',
        async (session) => {
          const asked: string[] = [];
          const find = (key: string) => {
            asked.push(key);
            return sandbox.tenantOptions('acme');
          };
          host = await startHost({
            kind,
            options: () => ({
              tenants: { find },
              allowedOrigins: () => true,
              resolveTenant: () => '',
              session,
              secrets: [COOKIE_SECRET],
            }),
          });
          for (const path of ['me', 'mine?eventId=world-2026', 'events/world-2026/booth', 'auth/login']) {
            const reply = await fetch(`${host.url}/${path}`, { headers: { authorization: 'Bearer e.e.e' } });
            expect([reply.status, await reply.json()]).toEqual([
              404,
              expect.objectContaining({ code: 'unknown_tenant' }),
            ]);
          }
          const calls = host.app.get(ExhibitorsService).forTenant('').list('world-2026');
          await expect(firstValueFrom(calls)).rejects.toMatchObject({
            code: expect.stringMatching(/unknown_tenant|invalid_argument/),
          });
          await expect(host.app.get(TenantRegistry).get('')).rejects.toMatchObject({
            code: 'unknown_tenant',
          });
          expect(asked).toEqual([]);
        },
      );

      it('is not resolved where the host throws, and its exception is the reply', async () => {
        const resolveTenant = (): string => {
          throw new HttpException('no such portal', 410);
        };
        const { url } = await startWith({ resolveTenant });
        const reply = await fetch(`${url}/me`);
        expect(reply.status).toBe(410);
        expect(await reply.json()).toMatchObject({ message: 'no such portal' });
      });
    });

    describe('its event', () => {
      const login = { tenant: 'acme', eventId: 'boutique-2026' };

      it('is the route parameter, else the query parameter, else the event of the login', async () => {
        const visitor = await signIn(sandbox, await startWith(), 'sam.several', login);
        expect(await eventOf(visitor, '/mine')).toBe('boutique-2026');
        expect(await eventOf(visitor, '/mine?eventId=world-2026')).toBe('world-2026');
        const both = await visitor.visit(`${host?.url}/events/regional-2026/mine?eventId=world-2026`);
        expect(bodyOf<{ id: string }[]>(both)[0]?.id).toMatch(/^acme-regional-2026-/);
      });

      it.each([
        ['at once', (id: string | undefined) => id],
        ['later', async (id: string | undefined) => id],
      ])('is the value that the host returns %s, whatever the address contains', async (_, wrap) => {
        const named = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
        const resolveEvent: ExhibitorModuleOptions['resolveEvent'] = ({ headers, query }) =>
          wrap(named(headers['x-event']) ?? (query['tenant'] === undefined ? undefined : 'boutique-2026'));
        const visitor = await signIn(sandbox, await startWith({ resolveEvent }), 'sam.several', login);
        expect(await eventOf(visitor, '/mine?eventId=world-2026', { 'x-event': 'regional-2026' })).toBe(
          'regional-2026',
        );
      });

      it('is the event of the login where the host returns none', async () => {
        let answer: string | undefined = 'boutique-2026';
        const visitor = await signIn(
          sandbox,
          await startWith({ resolveEvent: () => answer }),
          'sam.several',
          login,
        );
        answer = undefined;
        expect(await eventOf(visitor, '/mine?eventId=world-2026')).toBe('boutique-2026');
      });
    });

    describe('its exhibitor', () => {
      const login = { tenant: 'acme', eventId: 'world-2026' };
      const own = (): string[] =>
        sandbox
          .exhibitors('world-2026', 'acme')
          .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'))
          .map(({ id }) => id);
      const booth = async (visitor: Visitor, path: string, headers = {}) =>
        visitor.visit(`${host?.url}/events/world-2026/${path}`, { headers });

      it('is the only one of a person', async () => {
        const visitor = await signIn(sandbox, await startWith(), 'olga.one', login);
        const reply = await booth(visitor, 'booth');
        expect(reply.status).toBe(200);
        expect(bodyOf(reply)['contactEmails']).toContain('olga.one@example.com');
      });

      it('is 409 where a person has several and selected none', async () => {
        const visitor = await signIn(sandbox, await startWith(), 'sam.several', login);
        const reply = await booth(visitor, 'booth');
        expect(reply.status).toBe(409);
        expect(bodyOf(reply)).toEqual({
          statusCode: 409,
          message: 'select one of your exhibitors first',
          error: 'Conflict',
          code: 'exhibitor_not_selected',
        });
      });

      it('is the one of the route, if it belongs to the person', async () => {
        const visitor = await signIn(sandbox, await startWith(), 'sam.several', login);
        for (const id of own()) {
          expect(bodyOf(await booth(visitor, `booths/${id}`))['id']).toBe(id);
        }
        const foreign = sandbox.exhibitors('world-2026', 'acme').find(({ id }) => !own().includes(id));
        for (const id of [foreign?.id, 'acme-boutique-2026-0001', 'nonsense']) {
          const refused = await booth(visitor, `booths/${id}`);
          expect(refused.status).toBe(403);
          expect(bodyOf(refused)).toEqual({
            statusCode: 403,
            message: 'this exhibitor is not one of yours at this event',
            error: 'Forbidden',
            code: 'no_exhibitor',
          });
        }
      });

      it.each([
        ['at once', (id: string | undefined) => id],
        ['later', async (id: string | undefined) => id],
      ])('is the value that the host returns %s, if it belongs to the person', async (_, wrap) => {
        const resolveExhibitor: ExhibitorModuleOptions['resolveExhibitor'] = ({ headers }) => {
          const named = headers['x-exhibitor'];
          return wrap(typeof named === 'string' ? named : undefined);
        };
        const visitor = await signIn(sandbox, await startWith({ resolveExhibitor }), 'sam.several', login);
        const [, second] = own();
        expect(bodyOf(await booth(visitor, 'booth', { 'x-exhibitor': second }))['id']).toBe(second);
        expect((await booth(visitor, 'booth', { 'x-exhibitor': 'acme-world-2026-0001' })).status).toBe(403);
        expect((await booth(visitor, 'booth')).status).toBe(409);
      });

      it('is identified by the id that the host returns', async () => {
        const exhibitorId = (exhibitor: Record<string, unknown>): string =>
          `booth ${String(exhibitor['booth'])}`;
        const visitor = await signIn(sandbox, await startWith({ exhibitorId }), 'sam.several', login);
        const [first] = bodyOf<{ id: string; booth: string }[]>(await booth(visitor, 'mine'));
        const chosen = await booth(visitor, `booths/${encodeURIComponent(`booth ${first?.booth}`)}`);
        expect(bodyOf(chosen)['id']).toBe(first?.id);
        expect((await booth(visitor, `booths/${first?.id}`)).status).toBe(403);
      });
    });
  },
);
