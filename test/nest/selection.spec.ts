import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
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
import { ExhibitorExceptionFilter, ExhibitorGuard, ExhibitorSelection } from '../../lib/index.js';
import { copyOf } from '../login/journey.js';
import { BoothController } from '../support/booth.controller.js';
import { startHost, tenantsOptions, type Host, type HostKind } from '../support/host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { answerOf, bodyOf, idsOf, logOut, Members, signIn } from './signed-in.js';

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
  @Post('events/:eventId/select-by-context')
  @UseGuards(ExhibitorGuard)
  @UseInterceptors(SelectInterceptor)
  @UseFilters(ExhibitorExceptionFilter)
  byContext(): string {
    return 'done';
  }
}

const sandbox = await useSandbox();

const SAM = 'sam.several@example.com';
const idsAt = (eventId: string): string[] => idsOf(sandbox, eventId);

/** An event of its own, with exhibitors of these people. */
function eventWith(ids: readonly string[], eventId: string, contactEmails = [SAM]): string {
  sandbox.setExhibitors(
    eventId,
    ids.map((id) => ({ id, contactEmails })),
  );
  return eventId;
}

function start(kind: HostKind, options: OtherOptions = {}): Promise<Host> {
  return startHost({
    kind,
    controllers: [BoothController, ContextController],
    providers: [SelectInterceptor],
    options: tenantsOptions(sandbox, ['acme', 'globex'], {
      resolveTenant: ({ query }) => (query['tenant'] === 'globex' ? 'globex' : 'acme'),
      lookupCache: false,
      ...options,
    }),
  });
}

let host: Host;
let visitor: Visitor;

const at = (eventId: string, action: string): string => `${host.url}/events/${eventId}/${action}`;
const select = (eventId: string, id = '', headers: Record<string, string> = {}, query = ''): Promise<Reply> =>
  visitor.visit(`${at(eventId, 'select')}${query}`, { form: { id }, headers });
const clear = (eventId: string): Promise<Reply> => visitor.visit(at(eventId, 'clear'), { method: 'POST' });
const chosenAt = async (eventId: string, query = ''): Promise<string | number> => {
  const reply = await visitor.visit(`${at(eventId, 'booth')}${query}`);
  return reply.status === 200 ? String(bodyOf(reply)['id']) : reply.status;
};
const refusal = (message: string): [number, object] => [
  400,
  { statusCode: 400, message, error: 'Bad Request', code: 'invalid_argument' },
];

describe.each(['express', 'fastify'] as const)('the selected exhibitor on %s', (kind) => {
  const started = useHost(() => start(kind));
  const members = new Members(sandbox, started);
  beforeAll(() => void (host = started));
  beforeEach(async () => {
    visitor = await members.enter();
  });

  it('is kept until another or none is selected, for each event', async () => {
    const [first, second] = idsAt('world-2026');
    const [, national] = idsAt('national-2026');
    expect(await chosenAt('world-2026')).toBe(409);
    expect(answerOf(await select('world-2026', first))).toEqual([
      201,
      { chosen: expect.objectContaining({ id: first }) },
    ]);
    expect([await chosenAt('world-2026'), await chosenAt('world-2026')]).toEqual([first, first]);
    await select('national-2026', national);
    await select('world-2026', second);
    expect(await chosenAt('world-2026')).toBe(second);
    await clear('world-2026');
    expect(await chosenAt('world-2026')).toBe(409);
    expect(await chosenAt('national-2026')).toBe(national);
    await clear('national-2026');
    expect(visitor.cookies('127.0.0.1').has('exhibitor-selection')).toBe(false);
  });

  it('can be set and cleared with an execution context', async () => {
    const [, , third = ''] = idsAt('world-2026');
    const byContext = (form: Record<string, string>): Promise<Reply> =>
      visitor.visit(at('world-2026', 'select-by-context'), { method: 'POST', form });
    expect((await byContext({ id: third })).status).toBe(201);
    expect(await chosenAt('world-2026')).toBe(third);
    await byContext({});
    expect(await chosenAt('world-2026')).toBe(409);
    expect((await byContext({ id: 'nonsense' })).status).toBe(400);
  });

  it('is overridden by the exhibitor of the route, and deleted by the logout', async () => {
    visitor = await signIn(sandbox, host);
    const [first, second] = idsAt('world-2026');
    await select('world-2026', first);
    const named = await visitor.visit(at('world-2026', `booths/${second}`));
    expect(bodyOf(named)['id']).toBe(second);
    expect(await chosenAt('world-2026')).toBe(first);
    await logOut(visitor, host);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await chosenAt('world-2026')).toBe(409);
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
    const late = {
      request: { ...unseen.request, exhibitorContext: { exhibitors: [] } },
      response: { writeHead: () => undefined, headersSent: true },
    };
    await expect(selection.select(late, 'a')).rejects.toThrow('needs a response whose head is not written');
  });
});

describe('a selection', () => {
  const started = useHost(() => start('fastify'));
  const members = new Members(sandbox, started);
  beforeAll(() => void (host = started));
  beforeEach(async () => {
    visitor = await members.enter();
  });

  it('must belong to the person: anything else is 400 and changes nothing', async () => {
    const [first] = idsAt('world-2026');
    await select('world-2026', first);
    for (const id of ['acme-world-2026-0001', ...idsAt('national-2026').slice(0, 1), 'nonsense', '']) {
      expect(answerOf(await select('world-2026', id))).toEqual(
        refusal("exhibitorId: must be one of the user's own exhibitors"),
      );
    }
    const twice = new URLSearchParams(idsAt('world-2026').map((id): [string, string] => ['id', id]));
    expect((await visitor.visit(at('world-2026', 'select'), { form: twice })).status).toBe(400);
    expect(await chosenAt('world-2026')).toBe(first);
  });

  it('is of one person and one tenant: the next one in the same browser starts without', async () => {
    const event = eventWith(['a', 'b'], 'shared', [SAM, 'olga.one@example.com']);
    visitor = await signIn(sandbox, host);
    await select(event, 'a');
    expect(await chosenAt(event)).toBe('a');
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await chosenAt(event)).toBe('a');
    await signIn(sandbox, host, 'olga.one', {}, visitor);
    expect([await chosenAt(event), visitor.cookies('127.0.0.1').has('exhibitor-selection')]).toEqual([
      409,
      false,
    ]);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await chosenAt(event)).toBe(409);
    await select(event, 'a');
    await signIn(sandbox, host, 'sam.several', { tenant: 'globex' }, visitor);
    expect(await chosenAt(event, '?tenant=globex')).toBe(409);
    await select(event, 'b', {}, '?tenant=globex');
    expect(await chosenAt(event, '?tenant=globex')).toBe('b');
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await chosenAt(event)).toBe('a');
  });

  it('is kept for the last 20 events', async () => {
    const events = Array.from({ length: 21 }, (_, index) => eventWith(['a', 'b'], `e${index}`));
    for (const event of events) {
      await select(event, 'b');
    }
    const chosen = await Promise.all(events.map((event) => chosenAt(event)));
    expect(chosen).toEqual([409, ...Array.from({ length: 20 }, () => 'b')]);
  });

  it('is kept in a cookie of its own, of 500 bytes at most: the newest that fit', async () => {
    const events = Array.from({ length: 6 }, (_, index) => eventWith(['a', 'b'], `${index}`.repeat(100)));
    for (const event of events) {
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

  it('is kept as digests where tenant, event and id fit no cookie, beside others', async () => {
    const ids = ['a', 'b'].map((letter) => letter.padEnd(256, '"'));
    const [long = '', other = ''] = ids;
    const events = ['e', 'f'].map((letter) => eventWith([...ids, 'c'], letter.repeat(100)));
    const [event = '', next = ''] = events;
    const short = eventWith(['a', 'b'], 'beside-long');
    await select(short, 'b');
    await select(event, long);
    await select(next, other);
    expect(await Promise.all([short, event, next].map((one) => chosenAt(one)))).toEqual(['b', long, other]);
    await select(event, other);
    expect([await chosenAt(event), await chosenAt(next)]).toEqual([other, other]);
    await select(event, 'c');
    expect(await chosenAt(event)).toBe('c');
    await select(event, long);
    await clear(event);
    expect([await chosenAt(event), await chosenAt(next), await chosenAt(short)]).toEqual([409, other, 'b']);
    // No longer the person's own.
    expect(await chosenAt(eventWith([long, 'c'], next))).toBe(409);
  });

  it('counts as none where the cookie is anything else, and as nothing that is not the own', async () => {
    const [first] = idsAt('world-2026');
    await select('world-2026', first);
    const cookies = visitor.cookies('127.0.0.1');
    const own = cookies.get('exhibitor-selection') ?? '';
    expect(JSON.parse(Buffer.from(own, 'base64url').toString())).toEqual([['acme', 'world-2026', first]]);
    const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const text of [
      '',
      '%',
      'null',
      encoded(null),
      encoded({}),
      encoded(['acme', 'world-2026', first]),
      encoded([['world-2026', first]]),
      encoded([['acme', 'world-2026', 1]]),
      encoded([['acme', 'world-2026', first, first]]),
      encoded([['acme', 'world-2026', first], null]),
      encoded([['globex', 'world-2026', first]]),
      encoded([['acme', 'world-2026', 'acme-world-2026-0001']]),
      encoded([['acme', '__proto__', first]]),
      encoded(Array.from({ length: 40 }, () => ['acme', 'world-2026', first])),
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
    const event = eventWith(['a', 'b', 'c'], 'changing');
    await select(event, 'a');
    expect(await chosenAt(eventWith(['b', 'c'], event))).toBe(409);
    expect(await chosenAt(eventWith(['b'], event))).toBe('b');
    expect(await chosenAt(eventWith(['a', 'b'], event))).toBe('a');
  });
});

/** The pages of this application call the API of the host, which is on another origin. */
const APP = 'https://app.example.com';

/** What a browser sends of the page that caused a request. `HOST` stands for the origin of the host. */
type Sent = Record<string, string>;

describe('where exhibitorId cannot read one of the records', () => {
  const read: unknown[] = [];
  const oddHost = useHost(() =>
    start('express', {
      exhibitorId: (record: { company?: { id: string } }) => {
        read.push(record);
        return (record.company as { id: string }).id;
      },
    }),
  );
  const members = new Members(sandbox, oddHost);

  it('those before it can be chosen, and no id is read where none is chosen', async () => {
    const member = await members.enter();
    sandbox.setExhibitors('odd', [
      { id: '1', company: { id: 'a1' }, contactEmails: [SAM] },
      { id: '2', company: { id: 'a2' }, contactEmails: [SAM] },
      { id: '3', contactEmails: [SAM] },
    ]);
    const booth = () => member.visit(`${oddHost.url}/events/odd/booth`);
    read.length = 0;
    expect([(await booth()).status, read]).toEqual([409, []]);
    const { status } = await member.visit(`${oddHost.url}/events/odd/select`, { form: { id: 'a1' } });
    expect([status, (await booth()).status]).toEqual([201, 200]);
  });
});

describe.each([{ trustedOrigins: [] }, { trustedOrigins: [APP] }])('with %j', ({ trustedOrigins }) => {
  const started = useHost(() => start('express', trustedOrigins.length === 0 ? {} : { trustedOrigins }));
  beforeAll(() => void (host = started));
  const isTrusting = trustedOrigins.length > 0;
  const ofApp: Sent[] = [
    { 'sec-fetch-site': 'same-site', origin: APP },
    { 'sec-fetch-site': 'cross-site', origin: APP },
    { origin: APP },
  ];
  const headersOf = (sent: Sent): Sent =>
    Object.fromEntries(
      Object.entries(sent).map(([name, value]) => [name, value === 'HOST' ? host.url : value]),
    );

  it.each<Sent>([
    { 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'same-origin', origin: 'HOST' },
    { 'sec-fetch-site': 'same-site', origin: 'HOST' },
    { 'sec-fetch-site': 'none' },
    { origin: 'HOST' },
    {},
    ...(isTrusting ? ofApp : []),
  ])('a request may select and log out: %j', async (sent) => {
    visitor = await signIn(sandbox, host);
    const headers = headersOf(sent);
    const [, second] = idsAt('world-2026');
    expect((await select('world-2026', second, headers)).status).toBe(201);
    expect(await chosenAt('world-2026')).toBe(second);
    expect((await logOut(visitor, host, headers)).status).toBe(303);
    expect((await visitor.visit(`${host.url}/me`)).status).toBe(401);
    // Of nobody, the host does not know the tenant, and so no redirectUri.
    const isByRedirectUri = sent['origin'] === 'HOST' && sent['sec-fetch-site'] === 'same-site';
    expect((await logOut(new Visitor(), host, headers)).status).toBe(isByRedirectUri ? 400 : 303);
  });

  it('no request of another page does either, whatever domain it shares', async () => {
    visitor = await signIn(sandbox, host);
    const [first, second = ''] = idsAt('world-2026');
    await select('world-2026', first);
    for (const sent of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'same-site', origin: 'http://portal.localhost' },
      { 'sec-fetch-site': 'same-site', origin: 'https://evil.example.com' },
      { 'sec-fetch-site': 'same-site', origin: 'http://app.example.com' },
      { 'sec-fetch-site': 'same-site', origin: `${APP}:8443` },
      { origin: 'https://evil.example' },
      { origin: `${APP}.evil.example` },
      { origin: 'null' },
      { origin: 'not an origin' },
      ...(isTrusting ? [] : ofApp),
    ] as Sent[]) {
      for (const [action, form] of [
        ['select', { id: second }],
        ['select-by-context', { id: second }],
        ['select-by-context', {}],
      ] as const) {
        const reply = await visitor.visit(at('world-2026', action), { method: 'POST', form, headers: sent });
        expect([sent, ...answerOf(reply)]).toEqual([
          sent,
          ...refusal('a selection must come from this site'),
        ]);
      }
      for (const who of [visitor, new Visitor(), copyOf(visitor, host)]) {
        const reply = await logOut(who, host, sent);
        expect([sent, ...answerOf(reply)]).toEqual([sent, ...refusal('a logout must come from this site')]);
      }
    }
    expect(await chosenAt('world-2026')).toBe(first);
  });
});
