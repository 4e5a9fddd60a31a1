import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { lastValueFrom, Subject, takeUntil, type Observable } from 'rxjs';
import { TokenService, type ExhibitorsService, type TenantSource } from '../../lib/index.js';
import { endOf, microtasks, MOMENTS } from '../support/moments.js';
import { useHost } from '../support/lifetimes.js';
import { startRecorder } from '../support/recorder.js';
import { tenantAt } from '../support/tenant-at.js';
import { aWhile, eventually } from '../support/wait.js';
import { honest, startRestHost, type RestHost } from './rest-host.js';

const EVENT = 'world-2026';
const EMAIL = 'sam.several@example.com';

/** Answers the first pages of an event with 20 pages; everything else stays unanswered. */
const ANSWERED_PAGES = 3;
function answerFirstPages(url: URL): unknown {
  const page = Number(url.searchParams.get('Page'));
  return url.pathname.endsWith('/answering') && page <= ANSWERED_PAGES ? honest(page, 50, 1_000) : undefined;
}

const service = await startRecorder(answerFirstPages);
afterAll(() => service.stop());
beforeEach(() => service.forget());

type Options = { signal?: AbortSignal; deadline?: number };
type Method = (exhibitors: ExhibitorsService, options: Options) => Observable<unknown>;

const METHODS: Record<string, Method> = {
  list: (exhibitors, options) => exhibitors.list(EVENT, options),
  pages: (exhibitors, options) => exhibitors.pages(EVENT, options),
  stream: (exhibitors, options) => exhibitors.stream(EVENT, options),
  snapshot: (exhibitors, options) => exhibitors.snapshot(EVENT, options),
  lookup: (exhibitors, options) => exhibitors.lookup(EVENT, EMAIL, options),
  'lookup, fresh': (exhibitors, options) => exhibitors.lookup(EVENT, EMAIL, { ...options, fresh: true }),
};

/** Requests on the wire. Those of lookups run on without callers: their answers are cached. */
const open = (): string[] => service.ended('open').filter((url) => !url.includes('/contactEmail/'));

/** Nothing is left on the wire, and nothing was answered after its caller had left. */
async function expectSilence(): Promise<void> {
  // A request that its caller has left may still arrive, and is open until the server sees that its connection ends.
  await aWhile();
  await eventually(() => open().length === 0);
  expect(service.ended('completed')).toEqual([]);
}

/** Over a host's dispatcher as well, and when the module closes: test/http/leaving.spec.ts. */
describe('a call', () => {
  const host = useHost(() => startRestHost({ tenant: tenantAt(service.url) }));
  // With a token, a call sends its request within few microtasks.
  beforeAll(async () => void (await host.context.get(TokenService).getToken()));

  it('ends at every moment at which its signal aborts', async () => {
    for (const [name, method] of Object.entries(METHODS)) {
      for (const moment of MOMENTS) {
        const caller = new AbortController();
        const call = endOf(lastValueFrom(method(host.exhibitors, { signal: caller.signal })));
        await microtasks(moment);
        caller.abort();
        expect([name, moment, await call]).toEqual([name, moment, 'aborted']);
      }
    }
    await expectSilence();
  });

  it('ends at every moment at which its consumer unsubscribes', async () => {
    for (const method of Object.values(METHODS)) {
      for (const moment of MOMENTS) {
        const subscription = method(host.exhibitors, {}).subscribe(() => {
          throw new Error('a consumer that has left was told a value');
        });
        await microtasks(moment);
        subscription.unsubscribe();
      }
    }
    await expectSilence();
  });

  it('ends at its deadline', async () => {
    for (const deadline of [1, 2, 3, 5, 10, 20]) {
      const calls = Object.values(METHODS).map((method) =>
        endOf(lastValueFrom(method(host.exhibitors, { deadline }))),
      );
      expect(new Set(await Promise.all(calls))).toEqual(new Set(['deadline_exceeded']));
    }
    await expectSilence();
  });

  it('of a loop ends at every moment at which its signal aborts or the loop is left', async () => {
    for (const method of ['iterate', 'iteratePages'] as const) {
      for (const moment of MOMENTS) {
        const caller = new AbortController();
        const aborted = endOf(host.exhibitors[method](EVENT, { signal: caller.signal }).next());
        const items = host.exhibitors[method](EVENT);
        const left = endOf(items.next());
        await microtasks(moment);
        caller.abort();
        const returned = endOf(items.return?.() ?? Promise.resolve());
        const ends = [await aborted, await left, await returned];
        expect([method, moment, ...ends]).toEqual([method, moment, 'aborted', 'a value', 'a value']);
      }
    }
    await expectSilence();
  });

  it('over pages leaves none running, whenever its consumer leaves after page 3', async () => {
    for (const moment of MOMENTS) {
      service.forget();
      const leave = new Subject<void>();
      let seen = 0;
      host.exhibitors
        .pages('answering')
        .pipe(takeUntil(leave))
        .subscribe(() => {
          seen += 1;
          if (seen === ANSWERED_PAGES) {
            void microtasks(moment).then(() => leave.next());
          }
        });
      await eventually(() => seen === ANSWERED_PAGES && open().length === 0);
      expect(service.ended('completed')).toHaveLength(ANSWERED_PAGES);
    }
  });

  it('over pages leaves none running when a loop ends after page 3', async () => {
    let seen = 0;
    for await (const { data } of host.exhibitors.iteratePages('answering')) {
      expect(data).toHaveLength(50);
      seen += 1;
      if (seen === ANSWERED_PAGES) {
        await eventually(() => open().length === 4);
        break;
      }
    }
    await eventually(() => open().length === 0);
    expect(service.ended('completed')).toHaveLength(ANSWERED_PAGES);
  });
});

describe('a lookup, which equal lookups share', () => {
  it('runs on when its callers have left, whenever that is, and is aborted when the application closes', async () => {
    const host = await startRestHost({ tenant: tenantAt(service.url) });
    await host.context.get(TokenService).getToken();
    service.forget();
    for (const moment of MOMENTS) {
      const email = `moment-${moment}@example.com`;
      const leaving = [1, 2].map(() => host.exhibitors.lookup(EVENT, email).subscribe());
      await microtasks(moment);
      leaving.forEach((subscription) => subscription.unsubscribe());
      const late = endOf(lastValueFrom(host.exhibitors.lookup(EVENT, email, { deadline: 10 })));
      expect([moment, await late]).toEqual([moment, 'deadline_exceeded']);
    }
    await eventually(() => service.ended('open').length === MOMENTS.length);
    expect(service.recorded).toHaveLength(MOMENTS.length);
    await host.close();
    await eventually(() => service.ended('aborted').length === MOMENTS.length);
  });
});

describe('a call that waits for its tenant', () => {
  /** A source that does not answer. */
  const silent: TenantSource = { find: () => new Promise(() => {}) };
  type Call = (host: RestHost, signal?: AbortSignal) => Promise<unknown>;
  const CALLS: [string, Call][] = [
    ...Object.entries(METHODS).map(([name, method]): [string, Call] => [
      name,
      (host, signal) => lastValueFrom(method(host.exhibitors.forTenant('acme'), { signal })),
    ]),
    ['iterate', (host, signal) => host.exhibitors.forTenant('acme').iterate(EVENT, { signal }).next()],
    ['getToken', (host, signal) => host.context.get(TokenService).getToken({ tenant: 'acme', signal })],
  ];

  it('ends when its signal aborts, and when the application closes', async () => {
    const host = await startRestHost({ tenants: silent, allowedOrigins: () => true });
    const caller = new AbortController();
    const endsOf = (signal?: AbortSignal) =>
      Promise.all(CALLS.map(async ([name, call]) => [name, await endOf(call(host, signal))]));
    const [left, stayed] = [endsOf(caller.signal), endsOf()];
    await microtasks(5);
    caller.abort();
    expect(await left).toEqual(CALLS.map(([name]) => [name, 'aborted']));
    await host.close();
    expect(await stayed).toEqual(CALLS.map(([name]) => [name, 'service_unavailable']));
  });
});

describe('getToken', () => {
  it('ends at every moment at which its signal aborts, and its request runs on for the others', async () => {
    const endpoint = await startRecorder();
    const silent = { ...tenantAt(service.url), authUrl: `${endpoint.url}/held` };
    const host = await startRestHost({ tenant: silent });
    const tokens = host.context.get(TokenService);
    for (const moment of MOMENTS) {
      const caller = new AbortController();
      const call = endOf(tokens.getToken({ signal: caller.signal }));
      await microtasks(moment);
      caller.abort();
      expect([moment, await call]).toEqual([moment, 'aborted']);
    }
    await eventually(() => endpoint.ended('open').length === 1);
    await aWhile();
    expect(endpoint.recorded).toHaveLength(1);
    const staying = endOf(tokens.getToken());
    await host.close();
    expect(await staying).toMatch(/^(service|token)_unavailable$/);
    await eventually(() => endpoint.ended('aborted').length === 1);
    await endpoint.stop();
  });
});
