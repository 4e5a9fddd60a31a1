import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Inject, Module, UseGuards, type INestApplication, Catch, type Provider } from '@nestjs/common';
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
} from '@nestjs/graphql';
import { firstValueFrom } from 'rxjs';
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
  ExhibitorModule,
  ExhibitorSelection,
  ExhibitorsService,
  type Exhibitor,
  type ExhibitorIdentity,
  isExhibitorError,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, hostUser, Members, signIn } from '../guards/signed-in.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, createApp, setUser } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';

@ObjectType()
class Booth {
  @Field(() => String)
  id!: string;

  @Field(() => String)
  name!: string;
}

@ObjectType()
class Person {
  @Field(() => String)
  subject!: string;

  @Field(() => String)
  tenant!: string;
}

@Resolver(() => Booth)
class BoothResolver {
  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection,
  ) {}

  @Query(() => [Booth])
  @UseGuards(ExhibitorGuard)
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
  @UseGuards(ExhibitorGuard)
  event(
    @CurrentEvent() eventId: string,
    @Args('eventId', { type: () => String, nullable: true }) _eventId?: string,
  ): string {
    return eventId;
  }

  @Query(() => Person)
  @UseGuards(ExhibitorIdentityGuard)
  me(@CurrentIdentity() { subject }: ExhibitorIdentity, @CurrentTenant() tenant: string): Person {
    return { subject, tenant };
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

  @Query(() => String)
  unguarded(@CurrentIdentity() identity: ExhibitorIdentity): string {
    return identity.subject;
  }

  /** Nest does not run guards for the fields of an object by default: a mistake that must be reported. */
  @ResolveField(() => Int)
  rivals(@CurrentExhibitors() exhibitors: Exhibitor[]): number {
    return exhibitors.length - 1;
  }
}

interface Answer {
  status: number;
  cacheControl: string | null;
  data: Record<string, unknown> | null;
  errors: { message: string; path?: string[]; extensions: Record<string, unknown> }[];
}

const boothsOf = (data: Answer['data'], field: string): Booth[] => (data?.[field] ?? []) as Booth[];

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => sandbox?.clearFaults());

const sams = (eventId: string): string[] =>
  sandbox
    .exhibitors(eventId, 'acme')
    .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'))
    .map(({ id }) => id);

const GRAPHQL: ApolloDriverConfig = {
  driver: ApolloDriver,
  autoSchemaFile: true,
  includeStacktraceInErrorResponses: true,
  graphiql: false,
};

async function startResolvers(
  providers: Provider[] = [],
  graphql: Partial<ApolloDriverConfig> = {},
  extras: { bindFilter?: boolean } = {},
): Promise<{ app: INestApplication; url: string }> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;

  @Module({
    imports: [
      GraphQLModule.forRoot<ApolloDriverConfig>({ ...GRAPHQL, ...graphql }),
      ExhibitorModule.forRoot({
        tenant: sandbox.tenantOptions('acme', { redirectUri: `${url}/auth/callback` }),
        secrets: [COOKIE_SECRET],
        logoutCheck: { provider: true },
        http: { attempts: 1, deadline: 2_000 },
        resolveEvent: ({ query }, execution) => {
          if (execution.getType<string>() !== 'graphql') {
            return query['eventId'] as string | undefined;
          }
          return GqlExecutionContext.create(execution).getArgs<{ eventId?: string }>().eventId;
        },
        ...extras,
      }),
    ],
    controllers: [BoothController],
    providers: [BoothResolver, ...providers],
  })
  class AppModule {}

  const app = await createApp('express', AppModule);
  await app.listen(port, '127.0.0.1');
  return { app, url };
}

describe('a resolver on Express', () => {
  let host: { app: INestApplication; url: string };
  let members: Members;
  let visitor: Visitor;

  beforeAll(async () => {
    host = await startResolvers();
    members = new Members(sandbox, host);
  });
  afterAll(() => host?.app.close());
  beforeEach(async () => {
    await host.app.get(ExhibitorsService).invalidateLookups();
    visitor = await members.enter('sam.several', { eventId: 'boutique-2026' });
  });

  async function ask(query: string, who = visitor, headers: Record<string, string> = {}): Promise<Answer> {
    const reply = await who.visit(`${host.url}/graphql`, { json: { query }, headers });
    const { data = null, errors = [] } = JSON.parse(reply.text) as Partial<Answer>;
    return { status: reply.status, cacheControl: reply.headers.get('cache-control'), data, errors };
  }

  it('gets the exhibitors of the person from ExhibitorGuard', async () => {
    const { data, errors, cacheControl } = await ask('{ mine(eventId: "world-2026") { id name } }');
    expect(errors).toEqual([]);
    expect(boothsOf(data, 'mine').map(({ id }) => id)).toEqual(sams('world-2026'));
    expect(cacheControl).toContain('no-store');
  });

  it('gets the identity from ExhibitorIdentityGuard', async () => {
    expect((await ask('{ me { subject tenant } }')).data).toEqual({
      me: { subject: 'sam.several', tenant: 'default' },
    });
  });

  it('has no event where resolveEvent names none, whatever the query and the login say', async () => {
    const reply = await visitor.visit(`${host.url}/graphql?eventId=world-2026`, {
      json: { query: '{ event }' },
    });
    expect(JSON.parse(reply.text)).toMatchObject({
      data: null,
      errors: [{ extensions: { originalError: { statusCode: 400, code: 'event_required' } } }],
    });
  });

  it('can store a selection for each event', async () => {
    const [, world] = sams('world-2026');
    const [national] = sams('national-2026');
    const before = await ask('{ booth(eventId: "world-2026") { id } }');
    expect(before.errors[0]?.extensions['originalError']).toEqual({
      statusCode: 409,
      message: 'select one of your exhibitors first',
      error: 'Conflict',
      code: 'exhibitor_not_selected',
    });
    const chosen = await ask(`mutation {
      a: choose(eventId: "world-2026", id: "${world}") { id }
    }`);
    expect(chosen).toMatchObject({ errors: [], data: { a: { id: world } } });
    await ask(`mutation { b: choose(eventId: "national-2026", id: "${national}") { id } }`);
    expect((await ask('{ booth(eventId: "world-2026") { id } }')).data).toEqual({ booth: { id: world } });
    expect((await ask('{ booth(eventId: "national-2026") { id } }')).data).toEqual({
      booth: { id: national },
    });
    const wrong = await ask(`mutation { choose(eventId: "world-2026", id: "${national}") { id } }`);
    expect(wrong.errors[0]?.extensions['originalError']).toMatchObject({
      statusCode: 400,
      code: 'invalid_argument',
    });
  });

  it('stores no selection for another site', async () => {
    const [first] = sams('world-2026');
    const refused = await ask(`mutation { choose(eventId: "world-2026", id: "${first}") { id } }`, visitor, {
      'sec-fetch-site': 'cross-site',
    });
    expect(refused.errors[0]?.extensions['originalError']).toMatchObject({ code: 'invalid_argument' });
    expect((await ask('{ booth(eventId: "world-2026") { id } }')).data).toBeNull();
  });

  it.each([
    ['nobody', 'unauthenticated', 401, 'UNAUTHENTICATED', 'nobody is logged in'],
    ['nora.none', 'no_exhibitor', 403, 'FORBIDDEN', 'you have no exhibitor at this event'],
  ])(
    'answers %s with a GraphQL error of the code %s',
    async (person, code, statusCode, apolloCode, message) => {
      const who = person === 'nobody' ? new Visitor() : await members.enter(person);
      const { data, errors, status } = await ask('{ mine(eventId: "world-2026") { id } }', who);
      expect(status).toBe(200);
      expect(data).toBeNull();
      expect(errors).toHaveLength(1);
      expect(errors[0]).toMatchObject({ message, path: ['mine'], extensions: { code: apolloCode } });
      expect(errors[0]?.extensions['originalError']).toEqual({
        statusCode,
        message,
        error: expect.any(String),
        code,
      });
    },
  );

  it('answers a failure of the service the same way, from the guard and through the filter', async () => {
    for (const [operation, query] of [
      ['lookup', '{ mine(eventId: "world-2026") { id } }'],
      ['list', '{ count(eventId: "world-2026") }'],
    ] as const) {
      sandbox.failNext(operation, { kind: 'status', status: 503 });
      const { errors } = await ask(query);
      expect(errors[0]?.extensions['originalError']).toMatchObject({
        statusCode: 503,
        error: 'Service Unavailable',
        code: 'service_unavailable',
      });
      expect(JSON.stringify(errors)).not.toMatch(/sam\.several|Bearer|acme-api-secret/);
    }
    expect((await ask('{ count(eventId: "world-2026") }')).data).toEqual({ count: 1234 });
    expect((await ask('{ count(eventId: "nowhere") }')).errors[0]?.extensions['originalError']).toMatchObject(
      {
        statusCode: 404,
        code: 'not_found',
      },
    );
  });

  it('reports a decorator without its guard', async () => {
    expect((await ask('{ unguarded }')).errors[0]?.message).toBe(
      '@CurrentIdentity() needs ExhibitorIdentityGuard on the route',
    );
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
  let host: { app: INestApplication; url: string };
  afterEach(() => host.app.close());

  const ask = async (query: string, visitor = new Visitor()): Promise<Partial<Answer>> =>
    bodyOf(await visitor.visit(`${host.url}/graphql`, { json: { query } }));

  it('with a context of { req, res }, and the filter a second time, works alike', async () => {
    host = await startResolvers([{ provide: APP_FILTER, useClass: ExhibitorExceptionFilter }], {
      context: ({ req, res }: { req: object; res: object }) => ({ req, res }),
    });
    const visitor = await signIn(sandbox, host);
    const [, world] = sams('world-2026');
    const { errors } = await ask('{ booth(eventId: "world-2026") { id } }', visitor);
    expect(errors?.[0]?.extensions['originalError']).toMatchObject({ code: 'exhibitor_not_selected' });
    const choose = `mutation { choose(eventId: "world-2026", id: "${world}") { id } }`;
    expect(await ask(choose, visitor)).toEqual({ data: { choose: { id: world } } });
    const booth = await ask('{ booth(eventId: "world-2026") { id } }', visitor);
    expect(booth.data).toEqual({ booth: { id: world } });
    const failed = await ask('{ count(eventId: "nowhere") }');
    expect(failed.errors?.[0]?.extensions['originalError']).toMatchObject({ code: 'not_found' });
  });

  it('with bindFilter: false answers errors of services itself', async () => {
    host = await startResolvers([], {}, { bindFilter: false });
    const { errors } = await ask('{ count(eventId: "nowhere") }');
    expect(errors?.[0]).not.toHaveProperty('extensions.originalError');
  });

  it('with a catch-all filter answers them by it', async () => {
    host = await startResolvers([{ provide: APP_FILTER, useClass: CatchAllFilter }]);
    const { errors } = await ask('{ count(eventId: "nowhere") }');
    expect(errors?.[0]).toMatchObject({ message: 'caught not_found' });
  });
});

const EVENTS = ['boutique-2026', 'regional-2026', 'national-2026', 'world-2026'];

@Resolver()
class EventResolver {
  @Query(() => [String])
  @UseGuards(ExhibitorGuard)
  mine(
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @CurrentEvent() eventId: string,
    @Args('eventId', { type: () => String }) asked: string,
  ): string[] {
    return [asked, eventId, ...exhibitors.map(({ id }) => String(id))];
  }

  @Query(() => String)
  @UseGuards(ExhibitorIdentityGuard)
  tenant(@CurrentTenant() tenant: string): string {
    return tenant;
  }
}

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
  let app: INestApplication;
  let url: string;

  // The host keeps the identity and lookups are cached, so that the guards wait for promises only, and the guards of all
  // fields run concurrently.
  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}/graphql`;

    @Module({
      imports: [
        GraphQLModule.forRoot<ApolloDriverConfig>({
          ...GRAPHQL,
          fieldResolverEnhancers: ['guards'],
        }),
        ExhibitorModule.forRoot({
          tenant: sandbox.tenantOptions('acme'),
          secrets: [COOKIE_SECRET],
          session: 'host',
          resolveEvent: (_, context) =>
            GqlExecutionContext.create(context).getArgs<{ eventId?: string }>().eventId,
        }),
      ],
      providers: [EventResolver, PageResolver, { provide: APP_GUARD, useClass: ExhibitorIdentityGuard }],
    })
    class AppModule {}

    app = await createApp('express', AppModule);
    user = hostUser(sandbox.tenantOptions('acme'));
    setUser(app, 'express', () => user);
    await app.listen(port, '127.0.0.1');
  });
  afterAll(() => app?.close());

  it('get the exhibitors of their own event, each of another one', async () => {
    const fields = EVENTS.map((event, index) => `f${index}: mine(eventId: "${event}")`).join(' ');
    const query = `{ before: tenant ${fields} after: tenant }`;
    for (let turn = 0; turn < 3; turn++) {
      const reply = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query }),
      });
      const { data, errors } = (await reply.json()) as { data: Record<string, unknown>; errors?: unknown };
      expect(errors).toBeUndefined();
      for (const [index, event] of EVENTS.entries()) {
        const own = sandbox
          .exhibitors(event, 'acme')
          .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'));
        expect(own.length).toBeGreaterThan(0);
        expect(data[`f${index}`]).toEqual([event, event, ...own.map(({ id }) => id)]);
      }
      expect(data).toMatchObject({ before: 'default', after: 'default' });
    }
  });
  const ask = async (query: string): Promise<unknown> => {
    const reply = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/html, application/json' },
      body: JSON.stringify({ query }),
    });
    const { data, errors = [] } = (await reply.json()) as { data: unknown; errors?: { path: string[] }[] };
    return [data, errors.map(({ path }) => path.join('.'))];
  };

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
    expect(await ask('{ mine(eventId: "world-2026") }')).toEqual([null, ['mine']]);
  });
});
