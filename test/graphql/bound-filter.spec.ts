import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Catch, Inject, Module, type INestApplication, type Provider } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { Args, GraphQLModule, Int, Query, Resolver } from '@nestjs/graphql';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, isExhibitorError } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, createApp } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';

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

let sandbox: ExhibitorSandbox;
let app: INestApplication | undefined;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
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
