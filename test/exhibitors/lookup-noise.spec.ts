/** One person's failures must not close the service for others. Circuits, slots and queues: test/http/limits.spec.ts. */
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import type { HttpOptions } from '../../lib/index.js';
import { sendJson } from '../support/server.js';
import { aWhile, eventually, pause } from '../support/wait.js';
import { handMadeCases, honest, type Answer } from './rest-host.js';

const { against: caseOf } = handMadeCases({ lookupCache: false });

function against(answer: Answer, http?: HttpOptions) {
  const { service, exhibitors } = caseOf(answer, http);
  const find = (eventId: string, name: string, options = {}) =>
    firstValueFrom(exhibitors.lookup(eventId, `${name}@example.com`, options));
  const list = (eventId: string, options = {}) => firstValueFrom(exhibitors.list(eventId, options));
  return { service, find, list };
}

/** Answers 500 to what is about a junk event. */
const failing: Answer = ({ url, page, itemsPerPage, response }) => {
  if (url.includes('junk')) {
    return sendJson(response, {}, 500);
  }
  return url.includes('contactEmail') ? [{ id: 1 }] : honest(page, itemsPerPage, 1);
};

const times = (count: number) => Array.from({ length: count }, (_, index) => index);

/** Each call fails after a request: no circuit is open. */
async function expectAllSent(calls: Promise<unknown>[]): Promise<void> {
  const failure = { code: 'service_unavailable', attempts: 1 };
  await Promise.all(calls.map((call) => expect(call).rejects.toMatchObject(failure)));
}

const onePage = { data: [{ id: 0 }] };

describe('a user for whose requests the service fails', () => {
  it.each(['lists of an event', 'lookups, whatever the addresses'])(
    'by 5xx to %s: lists and lookups of others are served',
    async (what) => {
      const { list, find } = against(failing, { attempts: 1 });
      const isList = what.startsWith('list');
      await expectAllSent(
        times(45).map((index) => (isList ? list('junk') : find('junk', `mallory${index}`))),
      );
      await expect(list('good')).resolves.toMatchObject(onePage);
      await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
    },
  );

  it('by silence: while others are answered, their requests pass', async () => {
    const { list } = against((request) => (request.url.includes('junk') ? undefined : failing(request)), {
      attempts: 1,
      // Far more than an answered request takes on a busy machine.
      attemptTimeout: 1_000,
    });
    const silent = times(50).map(() => list('junk'));
    await expect(list('good')).resolves.toMatchObject(onePage);
    await expectAllSent(silent);
    await expect(list('good')).resolves.toMatchObject(onePage);
  });

  it('with 100 slow lists: lookups, which guards wait for, do not wait with them', async () => {
    const { list, find, service } = against((request) =>
      request.url.includes('contactEmail') ? [{ id: 1 }] : undefined,
    );
    const controller = new AbortController();
    const slow = times(100).map(() => list('slow', { signal: controller.signal }).catch(() => []));
    await eventually(() => service.urls.length === 64);
    await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
    controller.abort();
    await Promise.all(slow);
  });
});

describe('the lookups of one contact under way', () => {
  /** A service that holds the lookups of mallory until they are released. */
  function holding() {
    const held: ServerResponse[] = [];
    const parts = against(({ response, url }) =>
      url.includes('mallory') ? void held.push(response) : [{ id: 1 }],
    );
    const release = () => held.splice(0).forEach((response) => sendJson(response, []));
    /** Answers everything until these calls have ended. */
    const finish = async (calls: Promise<unknown>[]) => {
      const timer = setInterval(release, 5);
      await Promise.all(calls).finally(() => clearInterval(timer));
    };
    const start = async (count: number) => {
      const calls = times(count).map((index) => parts.find(`e${index}`, 'mallory').catch(() => []));
      await eventually(() => held.length === 8);
      return calls;
    };
    return { ...parts, held, release, finish, start };
  }

  it('are eight at a tenant; others wait for them, and other contacts do not', async () => {
    const { held, release, start, find, service } = holding();
    const calls = await start(20);
    await expect(find('e', 'olga')).resolves.toHaveLength(1);
    await aWhile();
    let most = held.length;
    while (service.urls.length < 21 || held.length > 0) {
      most = Math.max(most, held.length);
      release();
      await pause(5);
    }
    expect([await Promise.all(calls), most]).toEqual([times(20).map(() => []), 8]);
  });

  it('end their callers at their deadlines and signals while they wait', async () => {
    const { start, find, finish } = holding();
    const first = await start(8);
    const late = find('late', 'mallory', { deadline: 50 });
    await expect(late).rejects.toMatchObject({ code: 'deadline_exceeded', attempts: 0 });
    const controller = new AbortController();
    const leaving = find('left', 'mallory', { signal: controller.signal });
    controller.abort();
    await expect(leaving).rejects.toMatchObject({ code: 'aborted' });
    await finish([...first, find('next', 'mallory')]);
  });

  it('are refused where too many wait', async () => {
    const { start, find, finish } = holding();
    const calls = await start(108);
    const refused = { code: 'service_unavailable', attempts: 0, retryAfterMs: expect.any(Number) };
    await expect(find('more', 'mallory')).rejects.toMatchObject(refused);
    await finish(calls);
  });
});
