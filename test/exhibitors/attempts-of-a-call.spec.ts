import { afterEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import type { HttpOptions } from '../../lib/index.js';
import { sendJson } from '../support/server.js';
import { startRestHost, startService, type Answer } from './rest-host.js';

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) {
    await end();
  }
});

async function against(answer: Answer, http: HttpOptions = {}) {
  const service = await startService(answer);
  const { exhibitors, close } = await startRestHost({ tenant: service.tenant, http });
  endings.push(close, service.stop);
  return { exhibitors, service };
}

/** 401 to the first request, this status to all others. */
const after401 =
  (status: number): Answer =>
  ({ count, response }) =>
    sendJson(response, {}, count === 1 ? 401 : status);

describe('error.attempts', () => {
  it.each([
    [503, 'service_unavailable', 4],
    [429, 'rate_limited', 4],
    [401, 'access_denied', 2],
    [403, 'access_denied', 2],
    [400, 'request_rejected', 2],
  ])('counts the request before a 401 as well, where %i follows', async (status, code, attempts) => {
    const { exhibitors, service } = await against(after401(status));
    await expect(firstValueFrom(exhibitors.list('event'))).rejects.toMatchObject({ code, attempts });
    await expect(firstValueFrom(exhibitors.lookup('event', 'olga@example.com'))).rejects.toMatchObject({
      code,
    });
    expect(service.urls.filter((url) => !url.includes('contactEmail'))).toHaveLength(attempts);
  });

  it('counts it where the deadline passes afterwards', async () => {
    const { exhibitors } = await against(
      ({ count, response }) => (count === 1 ? sendJson(response, {}, 401) : undefined),
      { deadline: 700 },
    );
    await expect(firstValueFrom(exhibitors.list('event'))).rejects.toMatchObject({
      code: 'deadline_exceeded',
      attempts: 2,
    });
  });
});
