/** One person's failures must not close the service for others; a service that cannot be reached is still left alone. */
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import type { HttpOptions } from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { sendJson } from '../support/server.js';
import { aWhile, eventually } from '../support/wait.js';
import { handMadeCases, honest, type Answer } from './rest-host.js';

const { against: caseOf, context } = handMadeCases({ lookupCache: false });

function against(answer: Answer, http: HttpOptions = {}) {
  const { service, exhibitors } = caseOf(answer, http);
  const find = (eventId: string, name: string, options = {}) =>
    firstValueFrom(exhibitors.lookup(eventId, `${name}@example.com`, options));
  const list = (eventId: string, options = {}) => firstValueFrom(exhibitors.list(eventId, options));
  return { service, find, list, clock: clockOf(context()) };
}

/** Answers 500 to what is about a junk event. */
const failing: Answer = ({ url, page, itemsPerPage, response }) => {
  if (url.includes('junk')) {
    return sendJson(response, {}, 500);
  }
  return url.includes('contactEmail') ? [{ id: 1 }] : honest(page, itemsPerPage, 1);
};

const times = (count: number) => Array.from({ length: count }, (_, index) => index);

/** What a call ends with. */
const endOf = (call: Promise<unknown>): Promise<unknown> => call.catch((reason: unknown) => reason);

/** Each call fails after a request: no circuit is open. */
async function expectAllSent(calls: Promise<unknown>[]): Promise<void> {
  for (const end of await Promise.all(calls.map(endOf))) {
    expect(end).toMatchObject({ code: 'service_unavailable' });
    expect(end).not.toMatchObject({ attempts: 0 });
  }
}

describe('a user for whose requests the service fails', () => {
  it('by 5xx to the lists of an event: lists and lookups of others are served', async () => {
    const { list, find } = against(failing, { attempts: 1 });
    await expectAllSent(times(45).map(() => list('junk')));
    await expect(list('good')).resolves.toMatchObject({ data: [{ id: 0 }] });
    await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
  });

  it('by 5xx to lookups, whatever the addresses: those of others are served', async () => {
    const { list, find } = against(failing, { attempts: 1 });
    await expectAllSent(times(45).map((index) => find('junk', `mallory${index}`)));
    await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
    await expect(list('good')).resolves.toMatchObject({ data: [{ id: 0 }] });
  });

  it('by silence: while others are answered, their requests pass', async () => {
    const { list } = against((request) => (request.url.includes('junk') ? undefined : failing(request)), {
      attempts: 1,
      // Far more than an answered request takes on a busy machine.
      attemptTimeout: 1_000,
    });
    const silent = times(50).map(() => list('junk'));
    await expect(list('good')).resolves.toMatchObject({ data: [{ id: 0 }] });
    await expectAllSent(silent);
    await expect(list('good')).resolves.toMatchObject({ data: [{ id: 0 }] });
  });

  it('with 100 slow lists: lookups, which guards wait for, do not wait with them', async () => {
    const { list, find, service } = against((request) =>
      request.url.includes('contactEmail') ? [{ id: 1 }] : undefined,
    );
    const controller = new AbortController();
    const slow = times(100).map(() => endOf(list('slow', { signal: controller.signal })));
    await eventually(() => service.urls.length === 64);
    await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
    controller.abort();
    await Promise.all(slow);
  });
});

describe('a service that is down', () => {
  it('with 5xx is used as soon as it is well, also while one user still fails', async () => {
    let isDown = true;
    const { list, find } = against(
      (request) => (isDown ? sendJson(request.response, {}, 503) : failing(request)),
      { attempts: 1 },
    );
    await expectAllSent([
      ...times(45).map(() => list('good')),
      ...times(45).map((n) => find('good', `a${n}`)),
    ]);
    isDown = false;
    for (const index of times(20)) {
      await expectAllSent([list('junk')]);
      await expect(find('good', `olga${index}`)).resolves.toEqual([{ id: 1 }]);
    }
  });

  it('without replies gets no more requests for 5 s, then those of all, also while one user still fails', async () => {
    let isDown = true;
    const { list, find, clock } = against(
      (request) => {
        if (isDown || request.url.includes('junk')) {
          request.request.socket.destroy();
          return undefined;
        }
        return failing(request);
      },
      { attempts: 1 },
    );
    const ends = await Promise.all(times(45).map(() => endOf(list('good'))));
    expect(ends).toEqual(times(45).map(() => expect.objectContaining({ code: 'service_unavailable' })));
    await expect(list('good')).rejects.toMatchObject({ attempts: 0, retryAfterMs: expect.any(Number) });
    // Lookups have a circuit of their own, which has not failed yet.
    await expect(find('good', 'olga')).rejects.not.toMatchObject({ attempts: 0 });
    isDown = false;
    clock.skip(5_000);
    await expectAllSent(times(30).map(() => list('junk')));
    const others = await Promise.all(times(45).map(() => list('good')));
    expect(others).toHaveLength(45);
    await expectAllSent(times(30).map(() => list('junk')));
    await expect(list('good')).resolves.toMatchObject({ data: [{ id: 0 }] });
  });
});

describe('45 calls that have little time', () => {
  it('do not open the circuit of a slow service: a health check must not stop the users', async () => {
    const { list } = against(
      ({ page, itemsPerPage, response }) =>
        void setTimeout(() => sendJson(response, honest(page, itemsPerPage, 1)), 300),
    );
    const checks = times(45).map(() => endOf(list('good', { deadline: 100 })));
    for (const end of await Promise.all(checks)) {
      expect(end).toMatchObject({ code: 'deadline_exceeded', attempts: 1 });
    }
    await expect(list('good')).resolves.toMatchObject({ data: [{ id: 0 }] });
  });

  it('open it where all the time that calls of the tenant have passes without a reply', async () => {
    const { list } = against(() => undefined, { deadline: 800 });
    await endOf(list('first'));
    await Promise.all(times(45).map(() => endOf(list('good'))));
    await expect(list('good')).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
  });
});

describe('the lookups of one contact under way', () => {
  const holding = () => {
    const held: ServerResponse[] = [];
    const answer: Answer = ({ response, url }) => {
      if (!url.includes('mallory')) {
        return [{ id: 1 }];
      }
      held.push(response);
      return undefined;
    };
    return { held, answer };
  };

  it('are eight at a tenant; others wait for them, and other contacts do not', async () => {
    const { held, answer } = holding();
    const { find, service } = against(answer);
    const all = Promise.all(times(20).map((index) => find(`e${index}`, 'mallory')));
    await eventually(() => held.length === 8);
    await expect(find('e', 'olga')).resolves.toHaveLength(1);
    await aWhile();
    expect(held).toHaveLength(8);
    let most = 0;
    while (service.urls.length < 21 || held.length > 0) {
      most = Math.max(most, held.length);
      for (const response of held.splice(0)) {
        sendJson(response, []);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(await all).toHaveLength(20);
    expect(most).toBe(8);
  });

  it('end their callers at their deadlines and signals while they wait', async () => {
    const { held, answer } = holding();
    const { find } = against(answer);
    const first = times(8).map((index) => find(`e${index}`, 'mallory'));
    await eventually(() => held.length === 8);
    await expect(find('late', 'mallory', { deadline: 50 })).rejects.toMatchObject({
      code: 'deadline_exceeded',
      attempts: 0,
    });
    const controller = new AbortController();
    const leaving = expect(find('left', 'mallory', { signal: controller.signal })).rejects.toMatchObject({
      code: 'aborted',
    });
    controller.abort();
    await leaving;
    const next = find('next', 'mallory');
    const timer = setInterval(() => held.splice(0).forEach((response) => sendJson(response, [])), 5);
    await Promise.all([...first, next]);
    clearInterval(timer);
  });

  it('are refused where too many wait', async () => {
    const { held, answer } = holding();
    const { find } = against(answer);
    const all = times(108).map((index) => find(`e${index}`, 'mallory').catch(() => undefined));
    await eventually(() => held.length === 8);
    await expect(find('more', 'mallory')).rejects.toMatchObject({
      code: 'service_unavailable',
      attempts: 0,
      retryAfterMs: expect.any(Number),
    });
    const timer = setInterval(() => held.splice(0).forEach((response) => sendJson(response, [])), 5);
    await Promise.all(all);
    clearInterval(timer);
  });
});
