import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Module, UseGuards, type INestApplication } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  Args,
  Field,
  GqlExecutionContext,
  GraphQLModule,
  Mutation,
  ObjectType,
  Query,
  ResolveField,
  Resolver,
} from '@nestjs/graphql';
import {
  AllowAnonymous,
  CurrentEvent,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorModule,
  type Exhibitor,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, createApp, setUser } from '../support/host.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';
import { hostUser } from '../guards/signed-in.js';

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

let user: object | undefined;
let sandbox: ExhibitorSandbox;
let app: INestApplication;
let url: string;

// The host keeps the identity and lookups are cached, so that the guards wait for promises only, and the guards of all
// fields run concurrently.
beforeAll(async () => {
  sandbox = await startSandbox();
  const port = await freePort();
  url = `http://127.0.0.1:${port}/graphql`;

  @Module({
    imports: [
      GraphQLModule.forRoot<ApolloDriverConfig>({
        driver: ApolloDriver,
        autoSchemaFile: true,
        graphiql: false,
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
afterAll(async () => {
  await app?.close();
  await sandbox?.stop();
});

describe('the fields of one request, each for another event', () => {
  it('get the exhibitors of their own event', async () => {
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
});

describe('queries, mutations and fields behind a global guard', () => {
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
