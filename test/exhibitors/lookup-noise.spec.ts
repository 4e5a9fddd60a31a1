/** One person's failing lookups must not close the service for others; a service that is down is still left alone. */
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import type { HttpOptions } from '../../lib/index.js';
import { sendJson } from '../support/server.js';
import { aWhile, eventually } from '../support/wait.js';
import { honest, startRestHost, startService, type Answer } from './rest-host.js';

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) {
    await end();
  }
});

async function against(answer: Answer, http: HttpOptions = {}) {
  const service = await startService(answer);
  const { exhibitors, close } = await startRestHost({ tenant: service.tenant, http, lookupCache: false });
  endings.push(close, service.stop);
  const find = (eventId: string, name: string, options = {}) =>
    firstValueFrom(exhibitors.lookup(eventId, `${name}@example.com`, options));
  const list = () => firstValueFrom(exhibitors.list('good'));
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

/** Error codes and numbers of requests of calls, one after the other. */
async function failuresOf(count: number, call: (index: number) => Promise<unknown>): Promise<number[]> {
  const attempts: number[] = [];
  for (const index of times(count)) {
    const error: unknown = await call(index).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: 'service_unavailable' });
    attempts.push(Number((error as { attempts?: number }).attempts));
  }
  return attempts;
}

describe('sixty lookups of one contact that fail', () => {
  it('leave the lookups of others, and lists, untouched', async () => {
    const { find, list } = await against(failing, { attempts: 1 });
    const sent = await failuresOf(60, (index) => find(`junk-${index}`, 'mallory'));
    expect(new Set(sent)).toEqual(new Set([1]));
    await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
    await expect(find('good', 'mallory')).resolves.toEqual([{ id: 1 }]);
    await expect(list()).resolves.toMatchObject({ data: [{ id: 0 }] });
  });

  it('leave others their retries', async () => {
    let isFirst = true;
    const { find } = await against(
      (request) => {
        if (request.url.includes('flaky') && isFirst) {
          isFirst = false;
          return sendJson(request.response, {}, 503);
        }
        return failing(request);
      },
      { attempts: 3 },
    );
    await Promise.all(
      times(60).map((index) =>
        expect(find(`junk-${index}`, 'mallory')).rejects.toMatchObject({ attempts: 3 }),
      ),
    );
    await expect(find('flaky', 'olga')).resolves.toEqual([{ id: 1 }]);
  });

  it('that take too long count once as well', async () => {
    const { find } = await against(
      (request) => (request.url.includes('junk') ? undefined : failing(request)),
      { attempts: 1, attemptTimeout: 100, deadline: 20_000 },
    );
    await Promise.all(
      times(60).map((index) =>
        expect(find(`junk-${index}`, 'mallory')).rejects.toMatchObject({ attempts: 1 }),
      ),
    );
    await expect(find('good', 'olga')).resolves.toEqual([{ id: 1 }]);
  });

  it('of contacts in turn with good ones of others do not open the circuit', async () => {
    const { find } = await against(failing, { attempts: 1 });
    for (const index of times(120)) {
      await expect(find(`junk-${index}`, `mallory${index % 3}`)).rejects.toMatchObject({ attempts: 1 });
      await expect(find('good', 'olga')).resolves.toHaveLength(1);
    }
  });
});

describe('a service that is down', () => {
  it('opens the circuit within 50 contacts, for lists as well', async () => {
    const { find, list } = await against(failing, { attempts: 1 });
    const sent = await failuresOf(60, (index) => find('junk', `contact${index}`));
    expect(sent.filter((attempts) => attempts === 1).length).toBeLessThanOrEqual(50);
    await expect(find('good', 'olga')).rejects.toMatchObject({
      attempts: 0,
      retryAfterMs: expect.any(Number),
    });
    await expect(list()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
  });

  it('opens the circuit within 50 failed lists, for lookups as well', async () => {
    const { find, list } = await against(
      (request) =>
        request.url.includes('contactEmail') ? failing(request) : sendJson(request.response, {}, 500),
      { attempts: 1 },
    );
    const sent = await failuresOf(60, list);
    expect(sent.filter((attempts) => attempts === 1).length).toBeLessThanOrEqual(50);
    await expect(find('good', 'olga')).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
  });

  it('opens the circuit by connections of one contact that are reset', async () => {
    const { find } = await against(
      (request) => {
        if (request.url.includes('contactEmail')) {
          request.request.socket.destroy();
          return undefined;
        }
        return failing(request);
      },
      { attempts: 1 },
    );
    const sent = await failuresOf(60, (index) => find(`e${index}`, 'olga'));
    expect(sent.filter((attempts) => attempts > 0).length).toBeLessThanOrEqual(50);
    expect(sent.at(-1)).toBe(0);
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

  it('are four at a tenant; others wait for them, and other contacts do not', async () => {
    const { held, answer } = holding();
    const { find, service } = await against(answer);
    const all = Promise.all(times(10).map((index) => find(`e${index}`, 'mallory')));
    await eventually(() => held.length === 4);
    await expect(find('e', 'olga')).resolves.toHaveLength(1);
    await aWhile();
    expect(held).toHaveLength(4);
    let most = 0;
    while (service.urls.length < 11 || held.length > 0) {
      most = Math.max(most, held.length);
      for (const response of held.splice(0)) {
        sendJson(response, []);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(await all).toHaveLength(10);
    expect(most).toBe(4);
  });

  it('wait within their deadline, and leave the queue when their caller does', async () => {
    const { held, answer } = holding();
    const { find, service } = await against(answer);
    const first = times(4).map((index) => find(`e${index}`, 'mallory'));
    await eventually(() => held.length === 4);
    await expect(find('late', 'mallory', { deadline: 50 })).rejects.toMatchObject({
      code: 'deadline_exceeded',
      attempts: 0,
    });
    const controller = new AbortController();
    const leaving = expect(find('left', 'mallory', { signal: controller.signal })).rejects.toMatchObject({
      code: 'aborted',
    });
    const next = find('next', 'mallory');
    controller.abort();
    await leaving;
    held.splice(0).forEach((response) => sendJson(response, []));
    await Promise.all(first);
    await eventually(() => held.length === 1);
    held.splice(0).forEach((response) => sendJson(response, []));
    await next;
    expect(service.urls.filter((url) => /late|left/.test(url))).toEqual([]);
  });

  it('are refused where too many wait', async () => {
    const { held, answer } = holding();
    const { find } = await against(answer);
    const all = times(104).map((index) => find(`e${index}`, 'mallory').catch(() => undefined));
    await eventually(() => held.length === 4);
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
