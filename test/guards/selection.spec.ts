import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  Inject,
  Injectable,
  Post,
  UseFilters,
  UseGuards,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { from, switchMap } from 'rxjs';
import {
  CurrentExhibitor,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorSelection,
  type Exhibitor,
} from '../../lib/index.js';
import type { ExhibitorSandbox, SandboxExhibitor } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, HOST_KINDS, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';
import { startSandbox } from '../support/sandbox.js';

/** Selects with an execution context, which is all an interceptor has. */
@Injectable()
class SelectInterceptor implements NestInterceptor {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection) {}

  intercept(context: ExecutionContext, next: CallHandler): ReturnType<NestInterceptor['intercept']> {
    const { body } = context.switchToHttp().getRequest<{ body: { id?: string } }>();
    const done =
      body.id === undefined ? this.selection.clear(context) : this.selection.select(context, body.id);
    return from(done).pipe(switchMap(() => next.handle()));
  }
}

@Controller()
class ContextController {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection) {}

  @Post('events/:eventId/select-by-context')
  @UseGuards(ExhibitorGuard)
  @UseInterceptors(SelectInterceptor)
  @UseFilters(ExhibitorExceptionFilter)
  byContext(): string {
    return 'done';
  }

  @Post('unguarded/select')
  async unguarded(@Body('id') id: string): Promise<void> {
    const request = { method: 'POST', headers: {} };
    await this.selection.select({ request, response: {} }, id);
  }

  @Get('events/:eventId/chosen-id')
  @UseGuards(ExhibitorGuard)
  chosen(@CurrentExhibitor() exhibitor: Exhibitor): unknown {
    return exhibitor['id'];
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(HOST_KINDS)('the selected exhibitor on %s', (kind) => {
  let host: Host;
  let visitor: Visitor;
  beforeAll(async () => {
    host = await startHost({
      kind,
      controllers: [BoothController, ContextController],
      providers: [SelectInterceptor],
      options: (redirectUri) => ({
        tenants: {
          acme: sandbox.tenantOptions('acme', { redirectUri }),
          globex: sandbox.tenantOptions('globex', { redirectUri }),
        },
        resolveTenant: ({ query }) => (query['tenant'] === 'globex' ? 'globex' : 'acme'),
        secrets: [COOKIE_SECRET],
        lookupCache: false,
      }),
    });
  });
  afterAll(() => host?.close());
  beforeEach(async () => {
    visitor = await signIn(sandbox, host);
  });

  const at = (eventId: string, action: string): string => `${host.url}/events/${eventId}/${action}`;
  const ownAt = (eventId: string, tenant = 'acme', email = 'sam.several@example.com'): SandboxExhibitor[] =>
    sandbox.exhibitors(eventId, tenant).filter(({ contactEmails }) => contactEmails.includes(email));
  const idsAt = (eventId: string, tenant = 'acme'): string[] => ownAt(eventId, tenant).map(({ id }) => id);
  const select = (eventId: string, id: string | undefined, who = visitor, query = '') =>
    who.visit(`${at(eventId, 'select')}${query}`, { form: { id: id ?? '' } });
  const chosenAt = async (eventId: string, who = visitor, query = ''): Promise<string | number> => {
    const reply = await who.visit(`${at(eventId, 'booth')}${query}`);
    return reply.status === 200 ? String(bodyOf(reply)['id']) : reply.status;
  };

  it('is kept until another or none is selected', async () => {
    const [first, second] = idsAt('world-2026');
    expect(await chosenAt('world-2026')).toBe(409);
    const reply = await select('world-2026', first);
    expect(reply.status).toBe(201);
    expect(bodyOf(reply)).toMatchObject({ chosen: { id: first } });
    for (let visit = 0; visit < 3; visit++) {
      expect(await chosenAt('world-2026')).toBe(first);
    }
    await select('world-2026', second);
    expect(await chosenAt('world-2026')).toBe(second);
    await visitor.visit(at('world-2026', 'clear'), { method: 'POST' });
    expect(await chosenAt('world-2026')).toBe(409);
  });

  it('must belong to the person: anything else is 400 and changes nothing', async () => {
    const [first] = idsAt('world-2026');
    await select('world-2026', first);
    for (const id of ['acme-world-2026-0001', ...idsAt('national-2026').slice(0, 1), 'nonsense', '']) {
      const refused = await select('world-2026', id);
      expect(refused.status).toBe(400);
      expect(bodyOf(refused)).toEqual({
        statusCode: 400,
        message: "exhibitorId: must be one of the user's own exhibitors",
        error: 'Bad Request',
        code: 'invalid_argument',
      });
    }
    const twice = new URLSearchParams(idsAt('world-2026').map((id): [string, string] => ['id', id]));
    expect((await visitor.visit(at('world-2026', 'select'), { form: twice })).status).toBe(400);
    expect(await chosenAt('world-2026')).toBe(first);
  });

  it('is stored for each event', async () => {
    const [world] = idsAt('world-2026');
    const [, national] = idsAt('national-2026');
    await select('world-2026', world);
    await select('national-2026', national);
    expect(await chosenAt('world-2026')).toBe(world);
    expect(await chosenAt('national-2026')).toBe(national);
    await visitor.visit(at('world-2026', 'clear'), { method: 'POST' });
    expect(await chosenAt('world-2026')).toBe(409);
    expect(await chosenAt('national-2026')).toBe(national);
  });

  it('is stored for each person: the next one in the same browser starts without', async () => {
    const event = `shared-${kind.replaceAll(/\W+/g, '')}`;
    const contactEmails = ['sam.several@example.com', 'olga.one@example.com'];
    sandbox.setExhibitors(event, [
      { id: 'a', contactEmails },
      { id: 'b', contactEmails },
    ]);
    await select(event, 'a');
    expect(await chosenAt(event)).toBe('a');
    sandbox.signInAs('olga.one');
    await visitor.follow(`${host.url}/auth/login?returnTo=/landed`, ({ pathname }) => pathname === '/landed');
    expect(await chosenAt(event)).toBe(409);
  });

  it('is stored for each tenant', async () => {
    const event = `two-tenants-${kind.replaceAll(/\W+/g, '')}`;
    const contactEmails = ['sam.several@example.com'];
    sandbox.setExhibitors(event, [
      { id: 'a', contactEmails },
      { id: 'b', contactEmails },
    ]);
    await select(event, 'a');
    await visitor.follow(
      `${host.url}/auth/login?tenant=globex&returnTo=/landed`,
      ({ pathname }) => pathname === '/landed',
    );
    expect(await chosenAt(event, visitor, '?tenant=globex')).toBe(409);
    await select(event, 'b', visitor, '?tenant=globex');
    expect(await chosenAt(event, visitor, '?tenant=globex')).toBe('b');
  });

  it('is kept for the last 20 events', async () => {
    const events = Array.from({ length: 21 }, (_, index) => `e${index}`);
    const contactEmails = ['sam.several@example.com'];
    for (const event of events) {
      sandbox.setExhibitors(event, [
        { id: 'a', contactEmails },
        { id: 'b', contactEmails },
      ]);
      await select(event, 'b');
    }
    const [oldest = '', ...others] = events;
    for (const event of others) {
      expect(await chosenAt(event)).toBe('b');
    }
    expect(await chosenAt(oldest)).toBe(409);
  });

  it('is kept in a cookie of its own, of 500 bytes at most: the newest that fit', async () => {
    const contactEmails = ['sam.several@example.com'];
    const events = Array.from({ length: 6 }, (_, index) => `${index}`.repeat(100));
    for (const event of events) {
      sandbox.setExhibitors(event, [
        { id: 'a', contactEmails },
        { id: 'b', contactEmails },
      ]);
      const { setCookies } = await select(event, 'b');
      expect(setCookies.filter((cookie) => cookie.startsWith('exhibitor-'))).toEqual([
        expect.stringMatching(
          /^exhibitor-selection=[\w-]{1,500}; Max-Age=28800; Path=\/; HttpOnly; SameSite=Lax$/,
        ),
      ]);
    }
    const chosen = await Promise.all(events.map((event) => chosenAt(event)));
    expect(chosen).toEqual([409, 409, 409, 'b', 'b', 'b']);
  });

  it('is refused where the id fits no cookie', async () => {
    const event = 'e'.repeat(100);
    const contactEmails = ['sam.several@example.com'];
    const long = 'x'.repeat(256);
    sandbox.setExhibitors(event, [
      { id: long, contactEmails },
      { id: 'b', contactEmails },
    ]);
    const reply = await select(event, long);
    expect([reply.status, bodyOf(reply)['message']]).toEqual([
      400,
      'exhibitorId: is too long to be kept in a cookie',
    ]);
    expect(await chosenAt(event)).toBe(409);
  });

  it('counts as none where the cookie is anything else, and as nothing that is not the own', async () => {
    const [first] = idsAt('world-2026');
    await select('world-2026', first);
    const cookies = visitor.cookies('127.0.0.1');
    const own = cookies.get('exhibitor-selection') ?? '';
    const [owner] = JSON.parse(Buffer.from(own, 'base64url').toString()) as [string];
    const sealed = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const text of [
      '',
      '%',
      'null',
      sealed(null),
      sealed({}),
      sealed([owner]),
      sealed([owner, 'world-2026']),
      sealed([owner, [['world-2026', 1]]]),
      sealed([owner, [['world-2026']]]),
      sealed([{}, [['world-2026', first]]]),
      sealed(['another', [['world-2026', first]]]),
      sealed([owner, [['world-2026', 'acme-world-2026-0001']]]),
      sealed([owner, [['__proto__', first]]]),
      sealed([owner, Array.from({ length: 40 }, () => ['world-2026', first])]),
      'x'.repeat(8_000),
      '['.repeat(300),
      Buffer.from('['.repeat(350)).toString('base64url'),
    ]) {
      cookies.set('exhibitor-selection', text);
      expect([text, await chosenAt('world-2026')]).toEqual([text, 409]);
    }
    cookies.delete('exhibitor-selection');
    cookies.set('__Host-exhibitor-selection', own);
    expect(await chosenAt('world-2026')).toBe(409);
    cookies.set('exhibitor-selection', own);
    expect(await chosenAt('world-2026')).toBe(first);
  });

  it('does not count where the exhibitor does not belong to the person any more', async () => {
    const event = `changing-${kind.replaceAll(/\W+/g, '')}`;
    const contactEmails = ['sam.several@example.com'];
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id, contactEmails }));
    if (a === undefined || b === undefined || c === undefined) {
      throw new Error('three are needed');
    }
    sandbox.setExhibitors(event, [a, b, c]);
    await select(event, 'a');
    sandbox.setExhibitors(event, [b, c]);
    expect(await chosenAt(event)).toBe(409);
    sandbox.setExhibitors(event, [b]);
    expect(await chosenAt(event)).toBe('b');
    sandbox.setExhibitors(event, [a, b]);
    expect(await chosenAt(event)).toBe('a');
  });

  it('is deleted by the logout', async () => {
    const [first] = idsAt('world-2026');
    await select('world-2026', first);
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    sandbox.signInAs('sam.several');
    await visitor.follow(`${host.url}/auth/login?returnTo=/landed`, ({ pathname }) => pathname === '/landed');
    expect(await chosenAt('world-2026')).toBe(409);
  });

  it('is overridden by the exhibitor of the route', async () => {
    const [first, second] = idsAt('world-2026');
    await select('world-2026', first);
    const named = await visitor.visit(at('world-2026', `booths/${second}`));
    expect(bodyOf(named)['id']).toBe(second);
    expect(await chosenAt('world-2026')).toBe(first);
  });

  it('can be set and cleared with an execution context', async () => {
    const [, , third] = idsAt('world-2026');
    const made = await visitor.visit(at('world-2026', 'select-by-context'), { form: { id: third ?? '' } });
    expect(made.status).toBe(201);
    expect((await visitor.visit(at('world-2026', 'chosen-id'))).text).toBe(third);
    await visitor.visit(at('world-2026', 'select-by-context'), { method: 'POST', form: {} });
    expect(await chosenAt('world-2026')).toBe(409);
    const refused = await visitor.visit(at('world-2026', 'select-by-context'), { form: { id: 'nonsense' } });
    expect(refused.status).toBe(400);
  });

  it('requires ExhibitorGuard on the route, and reports its absence', async () => {
    const selection = host.app.get(ExhibitorSelection);
    const unseen = { request: { method: 'POST', headers: {} }, response: {} };
    await expect(selection.select(unseen, 'a')).rejects.toThrow(
      'ExhibitorSelection needs ExhibitorGuard on the route',
    );
    await expect(selection.clear({ request: {}, response: {} })).rejects.toThrow(
      'ExhibitorSelection needs the request of the guard',
    );
    const reply = await visitor.visit(`${host.url}/unguarded/select`, { form: { id: 'a' } });
    expect(reply.status).toBe(500);
  });

  it.each([
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'not an origin' },
    { 'sec-fetch-site': 'same-site', origin: 'http://portal.localhost' },
  ])('cannot be set by another site: %j', async (sent) => {
    const [first, second] = idsAt('world-2026');
    await select('world-2026', first);
    const headers = Object.fromEntries(
      Object.entries(sent).map(([name, value]) => [name, value === 'HOST' ? host.url : value]),
    );
    for (const [action, form] of [
      ['select', { id: second ?? '' }],
      ['select-by-context', { id: second ?? '' }],
    ] as const) {
      const refused = await visitor.visit(at('world-2026', action), { form, headers });
      expect(refused.status).toBe(400);
      expect(bodyOf(refused)).toEqual({
        statusCode: 400,
        message: 'a selection must come from this site',
        error: 'Bad Request',
        code: 'invalid_argument',
      });
    }
    await visitor.visit(at('world-2026', 'select-by-context'), { method: 'POST', form: {}, headers });
    expect(await chosenAt('world-2026')).toBe(first);
  });

  it.each([{ 'sec-fetch-site': 'same-origin' }, { 'sec-fetch-site': 'none' }, { origin: 'HOST' }, {}])(
    'can be set by this site: %j',
    async (sent) => {
      const [, second] = idsAt('world-2026');
      const headers = Object.fromEntries(
        Object.entries(sent).map(([name, value]) => [name, value === 'HOST' ? host.url : value]),
      );
      const reply = await visitor.visit(at('world-2026', 'select'), { form: { id: second ?? '' }, headers });
      expect(reply.status).toBe(201);
      expect(await chosenAt('world-2026')).toBe(second);
    },
  );

  describe('the logout', () => {
    it.each([
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: 'not an origin' },
    ])('cannot be caused by another site: %j', async (headers) => {
      for (const who of [visitor, new Visitor()]) {
        const refused = await who.visit(`${host.url}/auth/logout`, {
          method: 'POST',
          headers: Object.fromEntries(Object.entries(headers)),
        });
        expect(refused.status).toBe(400);
        expect(bodyOf(refused)).toEqual({
          statusCode: 400,
          message: 'a logout must come from this site',
          error: 'Bad Request',
          code: 'invalid_argument',
        });
      }
      expect((await visitor.visit(`${host.url}/me`)).status).toBe(200);
    });

    it('can be caused by this site, also without a login', async () => {
      for (const who of [visitor, new Visitor()]) {
        const done = await who.visit(`${host.url}/auth/logout`, {
          method: 'POST',
          headers: { origin: host.url, 'sec-fetch-site': 'same-origin' },
        });
        expect(done.status).toBe(303);
      }
      const byOrigin = await new Visitor().visit(`${host.url}/auth/logout`, {
        method: 'POST',
        headers: { origin: host.url },
      });
      expect(byOrigin.status).toBe(303);
      expect((await visitor.visit(`${host.url}/me`)).status).toBe(401);
    });
  });
});
