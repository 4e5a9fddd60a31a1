import type { IncomingMessage } from 'node:http';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Catch, Inject, Module, UseGuards, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import {
  Args,
  Context,
  Field,
  GqlExecutionContext,
  GraphQLModule,
  Int,
  Mutation,
  ObjectType,
  Query,
  ResolveField,
  Resolver,
  Subscription,
} from '@nestjs/graphql';
import { createClient } from 'graphql-ws';
import { firstValueFrom } from 'rxjs';
import { WebSocket } from 'ws';
import {
  AllowAnonymous,
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLogins,
  ExhibitorSelection,
  ExhibitorsService,
  type Exhibitor,
  type ExhibitorIdentity,
  isExhibitorError,
} from '../../lib/index.js';
import { PAGE } from './people.js';
import { bodyOf, hostUser, idsOf, Members, signIn } from './signed-in.js';
import { acmeOptions, setUser, startHost, type Host } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { Visitor } from '../support/visitor.js';

@ObjectType()
class Booth {
  @Field(() => String)
  id!: string;

  @Field(() => String)
  name!: string;
}

@Resolver(() => Booth)
class BoothResolver {
  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection,
  ) {}

  @Query(() => [Booth])
  @UseGuards(ExhibitorGuard, ExhibitorIdentityGuard)
  mine(
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @Args('eventId', { type: () => String, nullable: true }) _eventId?: string,
  ): Exhibitor[] {
    return exhibitors;
  }

  @Query(() => Booth)
  @UseGuards(ExhibitorGuard)
  booth(
    @CurrentExhibitor() exhibitor: Exhibitor,
    @Args('eventId', { type: () => String }) _eventId: string,
  ): Exhibitor {
    return exhibitor;
  }

  @Query(() => String)
  @UseGuards(ExhibitorIdentityGuard)
  user(@CurrentIdentity() { subject }: ExhibitorIdentity, @CurrentTenant() tenant: string): string {
    return `${subject} of ${tenant}`;
  }

  @Query(() => String)
  @UseGuards(ExhibitorIdentityGuard)
  event(
    @CurrentEvent() eventId: string,
    @Args('eventId', { type: () => String, nullable: true }) _eventId?: string,
  ): string {
    return eventId;
  }

  @Mutation(() => Booth)
  @UseGuards(ExhibitorGuard)
  choose(
    @Args('eventId', { type: () => String }) _eventId: string,
    @Args('id', { type: () => String }) id: string,
    @Context() { req }: { req: { res: object } },
  ): Promise<Exhibitor> {
    return this.selection.select({ request: req, response: req.res }, id);
  }

  @Query(() => Int)
  async count(@Args('eventId', { type: () => String }) eventId: string): Promise<number> {
    return (await firstValueFrom(this.exhibitors.list(eventId))).paginationMetadata.totalCount;
  }

  /** Nest does not run guards for the fields of an object by default: a mistake that must be reported. */
  @ResolveField(() => Int)
  rivals(@CurrentExhibitors() exhibitors: Exhibitor[]): number {
    return exhibitors.length - 1;
  }
}

interface Answer {
  status: number;
  retryAfter: string | null;
  data: Record<string, unknown> | null;
  errors: { message: string; path?: string[]; extensions: Record<string, unknown> }[];
}

const sandbox = await useSandbox();
const sams = (eventId: string): string[] => idsOf(sandbox, eventId);

const GRAPHQL: ApolloDriverConfig = {
  driver: ApolloDriver,
  autoSchemaFile: true,
  includeStacktraceInErrorResponses: true,
  graphiql: false,
};

type Extras = {
  providers?: Provider[];
  graphql?: Partial<ApolloDriverConfig>;
  bindFilter?: boolean;
  routes?: string;
};

function startResolvers({ providers = [], graphql, bindFilter = true, routes }: Extras = {}): Promise<Host> {
  @Module({ imports: [GraphQLModule.forRoot<ApolloDriverConfig>({ ...GRAPHQL, ...graphql })] })
  class SchemaModule {}

  return startHost({
    providers: [BoothResolver, ...providers],
    importedBefore: [SchemaModule],
    options: acmeOptions(sandbox, {
      http: { attempts: 1, deadline: 2_000 },
      resolveEvent: ({ query }, execution) => {
        if (execution.getType<string>() !== 'graphql') {
          return query['eventId'] as string | undefined;
        }
        return GqlExecutionContext.create(execution).getArgs<{ eventId?: string }>().eventId;
      },
      bindFilter,
      ...(routes !== undefined && { routes }),
    }),
  });
}

/** The error of a reply as an HTTP client would have got it. */
const originalError = ({ errors }: Partial<Answer>): unknown => errors?.[0]?.extensions['originalError'];

describe('a resolver on Express', () => {
  const host = useHost(() => startResolvers());
  const members = new Members(sandbox, host);
  let visitor: Visitor;
  beforeEach(async () => {
    await host.app.get(ExhibitorsService).invalidateLookups();
    visitor = await members.enter('sam.several', { eventId: 'boutique-2026' });
  });

  async function ask(query: string, who = visitor, headers: Record<string, string> = {}): Promise<Answer> {
    const reply = await who.visit(`${host.url}/graphql`, { json: { query }, headers });
    const { data = null, errors = [] } = JSON.parse(reply.text) as Partial<Answer>;
    return { status: reply.status, retryAfter: reply.headers.get('retry-after'), data, errors };
  }

  it('gets exhibitors from ExhibitorGuard, and the identity from ExhibitorIdentityGuard', async () => {
    const fields = 'mine(eventId: "world-2026") { id name } again: mine(eventId: "world-2026") { id }';
    const found = sams('world-2026').map((id) => ({ id }));
    expect(await ask(`{ ${fields} }`)).toMatchObject({ data: { mine: found, again: found }, errors: [] });
    expect((await ask('{ user }')).data).toEqual({ user: 'sam.several of default' });
  });

  it('has no event where resolveEvent names none, whatever the query and the login say', async () => {
    const path = `${host.url}/graphql?eventId=world-2026`;
    const reply = await visitor.visit(path, { json: { query: '{ mine { id } }' } });
    expect(originalError(bodyOf(reply))).toMatchObject({ statusCode: 400, code: 'event_required' });
  });

  it('can store a selection for each event, but not for another site', async () => {
    const [, world] = sams('world-2026');
    const [national] = sams('national-2026');
    const booth = async (eventId: string) => (await ask(`{ booth(eventId: "${eventId}") { id } }`)).data;
    const choose = (eventId: string, id?: string, headers = {}) =>
      ask(`mutation { choose(eventId: "${eventId}", id: "${id}") { id } }`, visitor, headers);
    expect(originalError(await ask('{ booth(eventId: "world-2026") { id } }'))).toEqual({
      statusCode: 409,
      message: 'select one of your exhibitors first',
      error: 'Conflict',
      code: 'exhibitor_not_selected',
    });
    const ofAnotherSite = await choose('world-2026', world, { 'sec-fetch-site': 'cross-site' });
    expect(originalError(ofAnotherSite)).toMatchObject({ code: 'invalid_argument' });
    expect(await booth('world-2026')).toBeNull();
    const chosen = await choose('world-2026', world);
    expect(chosen).toMatchObject({ errors: [], data: { choose: { id: world } } });
    await choose('national-2026', national);
    expect(await booth('world-2026')).toEqual({ booth: { id: world } });
    expect(await booth('national-2026')).toEqual({ booth: { id: national } });
    const wrong = originalError(await choose('world-2026', national));
    expect(wrong).toMatchObject({ statusCode: 400, code: 'invalid_argument' });
  });

  it.each([
    ['nobody', 'unauthenticated', 401, 'UNAUTHENTICATED', 'nobody is logged in'],
    ['nora.none', 'no_exhibitor', 403, 'FORBIDDEN', 'you have no exhibitor at this event'],
  ])(
    'answers %s with a GraphQL error of the code %s',
    async (person, code, statusCode, apolloCode, message) => {
      const who = person === 'nobody' ? new Visitor() : await members.enter(person);
      const answer = await ask('{ mine(eventId: "world-2026") { id } }', who);
      const error = { message, path: ['mine'], extensions: { code: apolloCode } };
      expect(answer).toMatchObject({ status: 200, data: null, errors: [error] });
      const body = { statusCode, message, error: expect.any(String), code };
      expect(originalError(answer)).toEqual(body);
    },
  );

  it('answers a failure of the service the same way, from the guard and through the filter', async () => {
    for (const [operation, query] of [
      ['lookup', '{ mine(eventId: "world-2026") { id } }'],
      ['list', '{ count(eventId: "world-2026") }'],
    ] as const) {
      sandbox.failNext(operation, { kind: 'status', status: 503, headers: { 'retry-after': '7' } });
      const answer = await ask(query);
      const body = { statusCode: 503, error: 'Service Unavailable', code: 'service_unavailable' };
      expect(originalError(answer)).toMatchObject(body);
      expect(answer.retryAfter).toBe(operation === 'lookup' ? '7' : null);
      expect(JSON.stringify(answer)).not.toMatch(/sam\.several|Bearer|acme-api-secret/);
    }
    expect((await ask('{ count(eventId: "world-2026") }')).data).toEqual({ count: 1234 });
    const nowhere = await ask('{ count(eventId: "nowhere") }');
    expect(originalError(nowhere)).toMatchObject({ statusCode: 404, code: 'not_found' });
  });

  it('knows the event of each field behind ExhibitorIdentityGuard, and never that of the login', async () => {
    const member = await members.enter('sam.several', { eventId: 'world-2026' });
    const two = await ask('{ one: event(eventId: "a") other: event(eventId: "b") }', member);
    expect(two.data).toEqual({ one: 'a', other: 'b' });
    expect(originalError(await ask('{ event }', member))).toMatchObject({ code: 'event_required' });
  });

  it('reports a decorator without its guard', async () => {
    const field = await ask('{ mine(eventId: "world-2026") { id rivals } }');
    expect(field.errors[0]?.message).toBe('@CurrentExhibitors() needs ExhibitorGuard on the route');
  });
});

@Catch()
class CatchAllFilter {
  catch(error: unknown): Error {
    return new Error(`caught ${isExhibitorError(error) ? error.code : 'something else'}`);
  }
}

describe('a resolver of a host', () => {
  const closing = useClosing();
  const ask = async (host: Host, query: string, visitor = new Visitor()): Promise<Partial<Answer>> =>
    bodyOf(await visitor.visit(`${host.url}/graphql`, { json: { query } }));
  const NOWHERE = '{ count(eventId: "nowhere") }';

  it('with a context of { req, res }, and the filter a second time, works alike', async () => {
    const context = ({ req, res }: { req: object; res: object }) => ({ req, res });
    const providers = [{ provide: APP_FILTER, useClass: ExhibitorExceptionFilter }];
    const host = closing(await startResolvers({ providers, graphql: { context } }));
    const visitor = await signIn(sandbox, host);
    const booth = '{ booth(eventId: "world-2026") { id } }';
    const [, id] = sams('world-2026');
    const none = originalError(await ask(host, booth, visitor));
    expect(none).toMatchObject({ code: 'exhibitor_not_selected' });
    const choose = `mutation { choose(eventId: "world-2026", id: "${id}") { id } }`;
    expect(await ask(host, choose, visitor)).toEqual({ data: { choose: { id } } });
    expect((await ask(host, booth, visitor)).data).toEqual({ booth: { id } });
    expect(originalError(await ask(host, NOWHERE))).toMatchObject({ code: 'not_found' });
  });

  it('answers errors of services itself with bindFilter: false, or by its catch-all filter', async () => {
    const unbound = closing(await startResolvers({ bindFilter: false }));
    expect((await ask(unbound, NOWHERE)).errors?.[0]).not.toHaveProperty('extensions.originalError');
    const providers = [{ provide: APP_FILTER, useClass: CatchAllFilter }];
    const caught = await ask(closing(await startResolvers({ providers })), NOWHERE);
    expect(caught.errors?.[0]).toMatchObject({ message: 'caught not_found' });
  });
});

const EVENTS = ['boutique-2026', 'regional-2026', 'national-2026', 'world-2026'];

@ObjectType()
class Page {
  @Field(() => String)
  title = 'Welcome';
}

@Resolver(() => Page)
class PageResolver {
  @Query(() => Page)
  @AllowAnonymous()
  page(): Page {
    return new Page();
  }

  @Mutation(() => String)
  @AllowAnonymous()
  subscribe(@CurrentIdentity() identity: { subject: string } | undefined): string {
    return identity?.subject ?? 'nobody';
  }

  @Query(() => String)
  closed(): string {
    return 'members only';
  }

  @ResolveField(() => String)
  @AllowAnonymous()
  reader(@CurrentIdentity() identity: { subject: string } | undefined): string {
    return identity?.subject ?? 'nobody';
  }

  @ResolveField(() => String, { nullable: true })
  secret(): string {
    return 'members only';
  }
}

describe('the fields of one request, behind a global guard', () => {
  let user: object | undefined;
  // The host keeps the identity and lookups are cached, so that the guards wait for promises only, and the guards of all
  // fields run concurrently.
  @Module({
    imports: [GraphQLModule.forRoot<ApolloDriverConfig>({ ...GRAPHQL, fieldResolverEnhancers: ['guards'] })],
  })
  class SchemaModule {}

  const host = useHost(() =>
    startHost({
      controllers: [],
      importedBefore: [SchemaModule],
      providers: [BoothResolver, PageResolver, { provide: APP_GUARD, useClass: ExhibitorIdentityGuard }],
      configure: (app) => setUser(app, 'express', () => user),
      options: (redirectUri) => {
        user = hostUser(sandbox.tenantOptions('acme', { redirectUri }));
        return acmeOptions(sandbox, {
          session: 'host',
          resolveEvent: (_, context) =>
            GqlExecutionContext.create(context).getArgs<{ eventId?: string }>().eventId,
        })(redirectUri);
      },
    }),
  );
  const ask = async (query: string): Promise<unknown> => {
    const headers = { accept: 'text/html, application/json' };
    const reply = await new Visitor().visit(`${host.url}/graphql`, { json: { query }, headers });
    const { data, errors = [] } = bodyOf<Partial<Answer>>(reply);
    return [data, errors.map(({ path }) => path?.join('.'))];
  };

  it('get the exhibitors of their own event, each of another one', async () => {
    const fields = EVENTS.map((event, index) => `f${index}: mine(eventId: "${event}") { id }`).join(' ');
    const query = `{ before: user ${fields} after: user }`;
    const found = Object.fromEntries(
      EVENTS.map((event, index) => [`f${index}`, sams(event).map((id) => ({ id }))]),
    );
    const sam = 'sam.several of default';
    for (let turn = 0; turn < 3; turn++) {
      expect(await ask(query)).toEqual([{ before: sam, ...found, after: sam }, []]);
    }
  });

  it('pass without a user where they have @AllowAnonymous()', async () => {
    const query = '{ page { title reader secret } }';
    const member = { title: 'Welcome', reader: 'sam.several', secret: 'members only' };
    expect(await ask(query)).toEqual([{ page: member }, []]);
    expect(await ask('mutation { subscribe }')).toEqual([{ subscribe: 'sam.several' }, []]);
    user = undefined;
    const reader = { title: 'Welcome', reader: 'nobody', secret: null };
    expect(await ask(query)).toEqual([{ page: reader }, ['page.secret']]);
    expect(await ask('mutation { subscribe }')).toEqual([{ subscribe: 'nobody' }, []]);
    expect(await ask('{ closed }')).toEqual([null, ['closed']]);
    expect(await ask('{ mine(eventId: "world-2026") { id } }')).toEqual([null, ['mine']]);
  });
});

it('a resolver shows no page where the module has routes', async () => {
  const host = await startResolvers({ routes: 'auth' });
  const headers = { ...PAGE, accept: 'text/html, application/json' };
  const reply = await new Visitor().visit(`${host.url}/graphql`, { json: { query: '{ user }' }, headers });
  expect(originalError(bodyOf(reply))).toMatchObject({ code: 'unauthenticated' });
  await host.close();
});

@Resolver(() => Booth)
class BoothsResolver {
  @Query(() => String)
  title(): string {
    return 'Booths';
  }

  @Subscription(() => [Booth], { resolve: (booths: unknown) => booths })
  @UseGuards(ExhibitorGuard)
  async *booths(
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @Args('eventId', { type: () => String }) _eventId: string,
  ): AsyncGenerator<Exhibitor[]> {
    yield exhibitors;
  }
}

describe('a subscription of a host that follows docs/recipes.md', () => {
  @Module({
    imports: [
      GraphQLModule.forRootAsync<ApolloDriverConfig>({
        driver: ApolloDriver,
        inject: [ExhibitorLogins],
        useFactory: (logins: ExhibitorLogins) => ({
          ...GRAPHQL,
          context: ({ req, extra }: { req?: object; extra?: { request: object } }) => ({
            req: extra?.request ?? req,
          }),
          subscriptions: {
            'graphql-ws': {
              onConnect: async ({ extra }) =>
                (await logins.identify((extra as { request: IncomingMessage }).request)) !== undefined,
            },
          },
        }),
      }),
    ],
  })
  class SchemaModule {}

  const host = useHost(() =>
    startHost({
      providers: [BoothsResolver],
      importedBefore: [SchemaModule],
      options: acmeOptions(sandbox, {
        isGlobal: true,
        resolveEvent: (_, context) =>
          context.getType<string>() === 'graphql'
            ? GqlExecutionContext.create(context).getArgs<{ eventId?: string }>().eventId
            : undefined,
      }),
    }),
  );

  /** The first result of a subscription, or the code by which the connection is closed. */
  async function subscribe(headers: Record<string, string>, eventId = 'world-2026'): Promise<unknown> {
    class Socket extends WebSocket {
      constructor(url: string, protocol: string) {
        super(url, protocol, { headers });
      }
    }
    const url = `${host.url.replace('http', 'ws')}/graphql`;
    const client = createClient({ url, webSocketImpl: Socket, retryAttempts: 0 });
    try {
      const query = `subscription { booths(eventId: "${eventId}") { id } }`;
      const { value } = await client.iterate({ query }).next();
      return value;
    } catch (error) {
      return (error as { code?: number }).code;
    } finally {
      await client.dispose();
    }
  }

  it('has the exhibitors of its user, and no connection of another origin or of nobody', async () => {
    const visitor = await signIn(sandbox, host);
    const cookie = [...visitor.cookies()].map(([name, value]) => `${name}=${value}`).join('; ');
    const booths = sams('world-2026').map((id) => ({ id }));
    expect(await subscribe({ cookie, origin: host.url })).toEqual({ data: { booths } });
    const refused = await subscribe({ cookie, origin: host.url }, 'empty-2026');
    expect(refused).toMatchObject({ errors: [{ path: ['booths'] }] });
    expect(await subscribe({ cookie, origin: 'https://evil.example' })).toBe(4403);
    expect(await subscribe({ origin: host.url })).toBe(4403);
  });
});
