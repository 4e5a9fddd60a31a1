import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  Inject,
  Module,
  UseFilters,
  UseGuards,
  type INestApplication,
  Catch,
  type Provider,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
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
import { signIn } from '../guards/signed-in.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, createApp } from '../support/host.js';
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
  @UseFilters(ExhibitorExceptionFilter)
  choose(
    @Args('eventId', { type: () => String }) _eventId: string,
    @Args('id', { type: () => String }) id: string,
    @Context() { req }: { req: { res: object } },
  ): Promise<Exhibitor> {
    return this.selection.select({ request: req, response: req.res }, id);
  }

  @Query(() => Int)
  @UseFilters(ExhibitorExceptionFilter)
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

/** Bound a second time for the whole host, which changes nothing. */
const FILTER_EVERYWHERE = [{ provide: APP_FILTER, useClass: ExhibitorExceptionFilter }];

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

/** The contexts of hosts: the default one, and one with the response. */
const CONTEXTS: [string, Partial<ApolloDriverConfig>][] = [
  ['the context as it is by default', {}],
  ['a context of { req, res }', { context: ({ req, res }: { req: object; res: object }) => ({ req, res }) }],
];

describe.each(CONTEXTS)('a resolver on Express, with %s', (_, context) => {
  let app: INestApplication;
  let host: { url: string };
  let visitor: Visitor;

  beforeAll(async () => {
    const port = await freePort();
    host = { url: `http://127.0.0.1:${port}` };
    const redirectUri = `${host.url}/auth/callback`;

    @Module({
      imports: [
        GraphQLModule.forRoot<ApolloDriverConfig>({
          driver: ApolloDriver,
          autoSchemaFile: true,
          includeStacktraceInErrorResponses: true,
          graphiql: false,
          ...context,
        }),
        ExhibitorModule.forRoot({
          tenant: sandbox.tenantOptions('acme', { redirectUri }),
          secrets: [COOKIE_SECRET],
          logoutCheck: { provider: true },
          http: { attempts: 1, deadline: 2_000 },
          resolveEvent: ({ query }, execution) => {
            if (execution.getType<string>() !== 'graphql') {
              return query['eventId'] as string | undefined;
            }
            return GqlExecutionContext.create(execution).getArgs<{ eventId?: string }>().eventId;
          },
        }),
      ],
      controllers: [BoothController],
      providers: [BoothResolver, ...FILTER_EVERYWHERE],
    })
    class AppModule {}

    app = await createApp('express', AppModule);
    await app.listen(port, '127.0.0.1');
  });
  afterAll(() => app?.close());
  beforeEach(async () => {
    await app.get(ExhibitorsService).invalidateLookups();
    visitor = await signIn(sandbox, host, 'sam.several', { eventId: 'boutique-2026' });
  });

  async function ask(query: string, who = visitor, headers: Record<string, string> = {}): Promise<Answer> {
    const reply = await who.visit(`${host.url}/graphql`, { json: { query }, headers });
    const { data = null, errors = [] } = JSON.parse(reply.text) as Partial<Answer>;
    return { status: reply.status, cacheControl: reply.headers.get('cache-control'), data, errors };
  }

  const own = (eventId: string): string[] =>
    sandbox
      .exhibitors(eventId, 'acme')
      .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'))
      .map(({ id }) => id);

  it('gets the exhibitors of the person from ExhibitorGuard', async () => {
    const { data, errors, cacheControl } = await ask('{ mine(eventId: "world-2026") { id name } }');
    expect(errors).toEqual([]);
    expect(boothsOf(data, 'mine').map(({ id }) => id)).toEqual(own('world-2026'));
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
    const [, world] = own('world-2026');
    const [national] = own('national-2026');
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
    const [first] = own('world-2026');
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
      const who = person === 'nobody' ? new Visitor() : await signIn(sandbox, host, person);
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

@Resolver()
class CountResolver {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  @Query(() => Int)
  async count(@Args('eventId', { type: () => String }) eventId: string): Promise<number> {
    return (await firstValueFrom(this.exhibitors.list(eventId))).paginationMetadata.totalCount;
  }
}

@Catch()
class CatchAllFilter {
  catch(error: unknown): Error {
    return new Error(`caught ${isExhibitorError(error) ? error.code : 'something else'}`);
  }
}

let app: INestApplication | undefined;
afterEach(async () => {
  await app?.close();
  app = undefined;
});

async function firstError(providers: Provider[], extras: { bindFilter?: boolean } = {}): Promise<unknown> {
  @Module({
    imports: [
      GraphQLModule.forRoot<ApolloDriverConfig>({
        driver: ApolloDriver,
        autoSchemaFile: true,
        graphiql: false,
      }),
      ExhibitorModule.forRoot({
        tenant: sandbox.tenantOptions('acme'),
        secrets: [COOKIE_SECRET],
        logoutCheck: { provider: true },
        ...extras,
      }),
    ],
    providers: [CountResolver, ...providers],
  })
  class AppModule {}

  app = await createApp('express', AppModule);
  const port = await freePort();
  await app.listen(port, '127.0.0.1');
  const reply = await fetch(`http://127.0.0.1:${port}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ count(eventId: "nowhere") }' }),
  });
  const { errors } = (await reply.json()) as { errors: unknown[] };
  return errors[0];
}

describe('an error of a service in a resolver', () => {
  it('has its code in the result where the host binds no filter', async () => {
    expect(await firstError([])).toMatchObject({
      extensions: { originalError: { statusCode: 404, code: 'not_found' } },
    });
  });

  it('is left to the host with bindFilter: false', async () => {
    expect(await firstError([], { bindFilter: false })).not.toHaveProperty('extensions.originalError');
  });

  it('goes to a catch-all filter of the host', async () => {
    const error = await firstError([{ provide: APP_FILTER, useClass: CatchAllFilter }]);
    expect(error).toMatchObject({ message: 'caught not_found' });
  });
});
