import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Param,
  Sse,
  type BeforeApplicationShutdown,
  type INestApplicationContext,
  type MessageEvent,
} from '@nestjs/common';
import { concatMap, firstValueFrom, from, interval, lastValueFrom, map, type Observable } from 'rxjs';
import {
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TenantRegistry,
  TokenService,
} from '../../lib/index.js';
import { KEPT_TIMERS } from '../support/clock.js';
import { startHost, type Host, type HostKind } from '../support/host.js';
import { eventually, turns } from '../support/wait.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { openConnections, openRequests } from '../support/sandbox.js';
import { stall } from '../support/faults.js';
import { loggedLines } from '../support/logged-lines.js';

const logged = loggedLines();
const sandbox = await useSandbox();

function boot(): Promise<INestApplicationContext> {
  const { login: _, ...tenant } = sandbox.tenantOptions('acme');
  return NestFactory.createApplicationContext(ExhibitorModule.forRoot({ tenant }), {
    logger: false,
    abortOnError: false,
  });
}

const CLOSED = 'service_unavailable: the module was closed';

/** Code and message of the error of a call. */
async function codeOf(call: Observable<unknown> | Promise<unknown>): Promise<string> {
  try {
    await lastValueFrom(from(call));
    return 'a value';
  } catch (error) {
    return isExhibitorError(error) ? `${error.code}: ${error.message}` : String(error);
  }
}

describe('a closed application', () => {
  it('ends running calls and waits for a retry at once, with a message', async () => {
    const app = await boot();
    const exhibitors = app.get(ExhibitorsService);
    await firstValueFrom(exhibitors.list('boutique-2026'));
    sandbox.failNext('list', stall('before-headers'));
    sandbox.failNext('list', stall('mid-body'));
    const busy = { kind: 'status', status: 503, headers: { 'retry-after': '5' } } as const;
    sandbox.failNext('lookup', busy, Infinity);
    const answered = sandbox.requests.length + 3;
    const calls = [
      codeOf(exhibitors.list('world-2026')),
      codeOf(exhibitors.stream('world-2026')),
      codeOf(exhibitors.lookup('world-2026', 'sam.several@example.com')),
    ];
    await eventually(() => sandbox.requests.length === answered && openRequests(sandbox) === 2);
    const began = performance.now();
    await app.close();
    expect(await Promise.all(calls)).toEqual([CLOSED, CLOSED, CLOSED]);
    expect(performance.now() - began).toBeLessThan(3_000);
    await eventually(() => openConnections(sandbox) === 0);
  });

  it('ends reads of a tenant source that does not answer, so that no timer holds the process, and blames nobody', async () => {
    const find = (): Promise<undefined> => new Promise(() => {});
    const options = { tenants: { find }, allowedOrigins: () => true, http: { deadline: 60_000 } };
    const app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot(options), {
      abortOnError: false,
    });
    const registry = app.get(TenantRegistry);
    const reads = [codeOf(registry.get('acme')), codeOf(app.get(TokenService).getToken({ tenant: 'acme' }))];
    await app.close();
    expect(await Promise.all(reads)).toEqual([CLOSED, CLOSED]);
    expect(await codeOf(registry.get('globex'))).toBe(CLOSED);
    expect([logged.warnings, logged.errors]).toEqual([[], []]);
  });

  it('refuses later calls and sends nothing, and may be closed twice', async () => {
    const app = await boot();
    const [exhibitors, tokens] = [app.get(ExhibitorsService), app.get(TokenService)];
    await app.close();
    await app.close();
    await eventually(() => openConnections(sandbox) === 0);
    sandbox.clearRequests();
    for (const call of [
      exhibitors.list('boutique-2026'),
      exhibitors.lookup('boutique-2026', 'sam.several@example.com'),
      exhibitors.snapshot('boutique-2026'),
    ]) {
      expect(await codeOf(call)).toMatch(/the module was closed$/);
    }
    expect(await codeOf(tokens.getToken())).toBe(CLOSED);
    expect(sandbox.requests).toHaveLength(0);
  });
});

@Controller()
class EventController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  @Get('events/:eventId')
  list(@Param('eventId') eventId: string) {
    return this.exhibitors.list(eventId);
  }

  /** Never completes. */
  @Sse('live')
  live(): Observable<MessageEvent> {
    return interval(50).pipe(
      concatMap(() => this.exhibitors.list('boutique-2026')),
      map(({ paginationMetadata }) => ({ data: paginationMetadata })),
    );
  }
}

/** Nest's hook between `onModuleDestroy` and the close of the HTTP server, for as long as the test says. */
@Injectable()
class LastWork implements BeforeApplicationShutdown {
  static hold: () => Promise<void> = async () => {};

  beforeApplicationShutdown(): Promise<void> {
    return LastWork.hold();
  }
}

/** The status of a reply, on a connection of its own. */
async function statusOf(url: string): Promise<number> {
  const reply = await fetch(url, { headers: { connection: 'close' } });
  await reply.text();
  return reply.status;
}

describe.each<HostKind>(['express', 'fastify'])('a closing host on %s', (kind) => {
  // Before the second close of a host, which calls the hook again.
  afterEach(() => {
    LastWork.hold = async () => {};
    jest.useRealTimers();
  });
  const closing = useClosing();
  const start = async (): Promise<Host> => {
    const { login: _, ...tenant } = sandbox.tenantOptions('acme');
    return closing(
      await startHost({
        kind,
        controllers: [EventController],
        providers: [LastWork],
        forceCloseConnections: false,
        options: () => ({ tenant: { ...tenant, http: { deadline: 60_000, attemptTimeout: 60_000 } } }),
      }),
    );
  };
  it('serves requests that are under way, and those that arrive until the server closes', async () => {
    const host = await start();
    sandbox.failNext('list', { kind: 'delay', ms: 300 }, 2);
    const early = statusOf(`${host.url}/events/boutique-2026`);
    await eventually(() => openRequests(sandbox) === 1);
    let late: Promise<number> | undefined;
    LastWork.hold = async () => {
      late = statusOf(`${host.url}/events/world-2026`);
      await eventually(() => openRequests(sandbox) === 2);
    };
    await host.close();
    expect([await early, await late]).toEqual([200, 200]);
    await eventually(() => openConnections(sandbox) === 0);
  });

  it('ends an endless stream 10 s after the close began, and with it the last connection', async () => {
    const host = await start();
    const stream = statusOf(`${host.url}/live`);
    await eventually(() => openConnections(sandbox) > 0);
    jest.useFakeTimers({ doNotFake: [...KEPT_TIMERS] });
    let isClosed = false;
    const closed = host.close().then(() => (isClosed = true));
    await turns();
    jest.advanceTimersByTime(9_999);
    await turns();
    expect(isClosed).toBe(false);
    jest.advanceTimersByTime(1);
    await closed;
    expect(await stream).toBe(200);
  });
});
