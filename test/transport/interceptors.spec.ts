import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import axios, { type AxiosInstance } from 'axios';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, isExhibitorError, type ExhibitorError } from '../../lib/index.js';
import { startRestHost, startService, wrapper, type Answer, type RestHost } from '../exhibitors/rest-host.js';
import type { OtherOptions } from '../support/module-options.js';
import { sendJson } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import { tenantAt } from './transport-bench.js';

const TOKEN = 'token-of-the-hand-made-service';

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) {
    await end();
  }
});

/** A host whose interceptors are those of `configure`, beside a real service. */
async function hostWith(
  configure: (instance: AxiosInstance) => unknown,
  answer: Answer = ({ page }) => wrapper(page, 1, 1),
  http: OtherOptions['http'] = {},
) {
  const received: Record<string, unknown>[] = [];
  const service = await startService((request) => {
    received.push(request.request.headers);
    return answer(request);
  });
  const host: RestHost = await startRestHost({ tenant: service.tenant, axios: configure, http });
  endings.push(host.close, service.stop);
  const list = () => firstValueFrom(host.exhibitors.list('e'));
  const failure = async (): Promise<ExhibitorError> => {
    const error: unknown = await list().catch((reason: unknown) => reason);
    if (!isExhibitorError(error)) {
      throw new Error('the call must fail');
    }
    return error;
  };
  return { service, received, exhibitors: host.exhibitors, list, failure };
}

describe('a request interceptor', () => {
  it('adds headers, also asynchronously, to every request, and logs its address', async () => {
    const seen: string[] = [];
    const { list, received, service } = await hostWith((instance) =>
      instance.interceptors.request.use(async (config) => {
        await pause(1);
        seen.push(`${config.method} ${config.url}`);
        config.headers.set('X-Request-Id', 'one');
        config.headers.set('User-Agent', 'a host');
        return config;
      }),
    );
    await list();
    const url = service.tenant.baseUrl;
    expect(seen).toEqual([
      `post ${url}/connect/token`,
      `get ${url}/api/v1/exhibitor/event/e?Page=1&ItemsPerPage=50`,
    ]);
    expect(received).toMatchObject([{ 'x-request-id': 'one', 'user-agent': 'a host' }]);
  });

  it('changes nothing but headers, and none of those that the module sets', async () => {
    const { list, received, service } = await hostWith((instance) => {
      Object.assign(instance.defaults.headers.common, { 'X-Default': 'of the instance' });
      instance.interceptors.request.use((config) => {
        Object.assign(config, { url: '/elsewhere', baseURL: 'http://127.0.0.1:9', method: 'delete' });
        Object.assign(config, { data: 'a body', params: { Page: 7 }, timeout: 1, maxRedirects: 9 });
        config.headers.clear();
        config.headers.set({
          'x-tenant-id': 'another',
          Authorization: 'Bearer another',
          Host: 'another.example',
          'Content-Length': '5',
          Accept: 'text/html',
        });
        return config;
      });
    });
    await expect(list()).resolves.toMatchObject({ data: [{ id: 0 }] });
    expect(service.urls).toEqual(['/api/v1/exhibitor/event/e?Page=1&ItemsPerPage=50']);
    expect(received).toMatchObject([
      {
        'x-tenant-id': 'hand-made',
        authorization: `Bearer ${TOKEN}`,
        host: new URL(service.tenant.baseUrl).host,
        accept: 'application/json',
      },
    ]);
    expect(Object.keys(received[0] ?? {})).not.toContain('content-length');
  });

  it('that throws fails the call at once, without a request and without the circuit', async () => {
    const mistake = new Error('no trace here');
    let isBroken = false;
    let called = 0;
    const { list, failure, service } = await hostWith((instance) =>
      instance.interceptors.request.use((config) => {
        called += 1;
        if (isBroken) {
          throw mistake;
        }
        return config;
      }),
    );
    await list();
    isBroken = true;
    called = 0;
    for (let call = 0; call < 60; call += 1) {
      const error = await failure();
      expect(error).toMatchObject({ code: 'service_unavailable', attempts: 0 });
      expect(error.cause).toBe(mistake);
    }
    expect([called, service.urls.length]).toEqual([60, 1]);
    isBroken = false;
    await expect(list()).resolves.toMatchObject({ data: [{ id: 0 }] });
  });

  it('that throws for the request of a token fails the call alike', async () => {
    const mistake = new Error('no trace here');
    const { failure } = await hostWith((instance) =>
      instance.interceptors.request.use(() => {
        throw mistake;
      }),
    );
    const error = await failure();
    expect(error).toMatchObject({ code: 'service_unavailable', attempts: 0 });
    expect(error.cause).toBe(mistake);
  });

  it('that is slow ends with the deadline, and is not taken for a slow service', async () => {
    let isSlow = false;
    const { list, failure, service } = await hostWith(
      (instance) => instance.interceptors.request.use((config) => (isSlow ? new Promise(() => {}) : config)),
      undefined,
      { deadline: 600, attemptTimeout: 400 },
    );
    await list();
    isSlow = true;
    const errors = await Promise.all(Array.from({ length: 60 }, failure));
    expect(new Set(errors.map(({ code, attempts }) => `${code} ${attempts}`))).toEqual(
      new Set(['deadline_exceeded 0']),
    );
    isSlow = false;
    await list();
    expect(service.urls).toHaveLength(2);
  });

  it.each<[string, (instance: AxiosInstance) => unknown, RegExp]>([
    [
      'that sets no valid header',
      (instance) =>
        instance.interceptors.request.use((config) => {
          config.headers.set('X-Name', 'Zoë ☃');
          return config;
        }),
      /x-name/i,
    ],
    [
      'that replaces the adapter',
      (instance) =>
        instance.interceptors.request.use((config) => ({
          ...config,
          adapter: async () => ({ data: 1, status: 200, statusText: '', headers: {}, config }),
        })),
      /adapter/,
    ],
  ])('%s fails the call', async (_what, configure, message) => {
    const { failure } = await hostWith(configure);
    const error = await failure();
    expect(error).toMatchObject({ code: 'service_unavailable', attempts: 0 });
    expect(inspect(error.cause)).toMatch(message);
    expect(inspect(error)).not.toContain('Zoë');
  });

  it('that gives up on a request that was sent fails the call, and the request counts', async () => {
    const mistake = new Error('the limit of the host');
    const { failure, service } = await hostWith(
      (instance) =>
        instance.interceptors.request.use((config) => {
          const { adapter } = config;
          if (typeof adapter !== 'function' || config.url?.includes('/event/') !== true) {
            return config;
          }
          const limit = () => eventually(() => service.urls.length === 1).then(() => Promise.reject(mistake));
          return { ...config, adapter: (given) => Promise.race([adapter(given), limit()]) };
        }),
      () => undefined,
    );
    const error = await failure();
    expect(error).toMatchObject({ code: 'service_unavailable', attempts: 1, cause: mistake });
    expect(service.urls).toHaveLength(1);
  });

  it('that cancels a request makes axios show no token', async () => {
    const { failure } = await hostWith((instance) =>
      instance.interceptors.request.use((config) =>
        config.method === 'post' ? config : { ...config, signal: AbortSignal.abort() },
      ),
    );
    const error = await failure();
    expect(error).toMatchObject({ code: 'service_unavailable', attempts: 0 });
    expect(error.cause).toBeUndefined();
    expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(TOKEN);
  });
});

describe('a response interceptor', () => {
  it('gets status and headers of each attempt, and no body', async () => {
    const seen: unknown[] = [];
    const { list } = await hostWith(
      (instance) =>
        instance.interceptors.response.use((response) => {
          seen.push([response.config.method, response.status, response.headers['x-note'], response.data]);
          return response;
        }),
      ({ count, page, response }) => {
        response.setHeader('x-note', `reply ${count}`);
        return count === 1 ? sendJson(response, {}, 503) : wrapper(page, 1, 1);
      },
    );
    await list();
    expect(seen).toEqual([
      ['post', 200, undefined, undefined],
      ['get', 503, 'reply 1', undefined],
      ['get', 200, 'reply 2', undefined],
    ]);
  });

  it('that throws fails the call without a retry', async () => {
    const mistake = new TypeError('response.data is undefined');
    const { failure, service } = await hostWith((instance) =>
      instance.interceptors.response.use((response) => {
        if (response.config.method === 'get') {
          throw mistake;
        }
        return response;
      }),
    );
    const error = await failure();
    expect(error).toMatchObject({ code: 'service_unavailable', status: 200, attempts: 1 });
    expect(error.cause).toBe(mistake);
    expect(service.urls).toHaveLength(1);
  });

  it('that rejects without an error fails the call as well', async () => {
    const { failure } = await hostWith((instance) =>
      instance.interceptors.response.use((response) =>
        response.config.method === 'get' ? Promise.reject(undefined) : response,
      ),
    );
    await expect(failure()).resolves.toMatchObject({ code: 'service_unavailable', attempts: 1 });
  });

  it('that is slow ends with the deadline', async () => {
    let isSlow = false;
    const { list, failure } = await hostWith(
      (instance) =>
        instance.interceptors.response.use((response) => (isSlow ? new Promise(() => {}) : response)),
      undefined,
      { deadline: 600 },
    );
    await list();
    isSlow = true;
    await expect(failure()).resolves.toMatchObject({ code: 'deadline_exceeded', attempts: 1 });
  });

  it('may send the request again: until that is answered, the former reply is the last', async () => {
    const { failure, service } = await hostWith(
      (instance) =>
        instance.interceptors.response.use((response) =>
          response.status === 503 ? instance.request(response.config) : response,
        ),
      ({ count, response }) => (count === 1 ? sendJson(response, {}, 503) : undefined),
      { deadline: 600 },
    );
    await expect(failure()).resolves.toMatchObject({ code: 'deadline_exceeded', status: 503 });
    expect(service.urls).toHaveLength(2);
  });

  it('hears of a request without a reply, by an error without the token; the retry follows', async () => {
    const errors: unknown[] = [];
    const { list, service } = await hostWith(
      (instance) =>
        instance.interceptors.response.use(undefined, (error: unknown) => {
          errors.push(error);
          throw error;
        }),
      ({ count, page, response }) => {
        if (count === 1) {
          response.destroy();
          return undefined;
        }
        return wrapper(page, 1, 1);
      },
    );
    await expect(list()).resolves.toMatchObject({ data: [{ id: 0 }] });
    expect(errors).toMatchObject([{ code: 'service_unavailable' }]);
    expect(inspect(errors, { depth: Infinity })).not.toContain(TOKEN);
    expect(service.urls).toHaveLength(2);
  });
});

describe('the axios instance', () => {
  it('is configured once, at boot, and has nothing of the defaults that the host set', async () => {
    let configured = 0;
    axios.defaults.headers.common['X-Of-Another-Service'] = 'a secret';
    try {
      const { list, received } = await hostWith(() => (configured += 1));
      expect(configured).toBe(1);
      await list();
      await list();
      expect(configured).toBe(1);
      expect(received[0]).not.toHaveProperty('x-of-another-service');
    } finally {
      delete axios.defaults.headers.common['X-Of-Another-Service'];
    }
  });

  it('whose configuration throws is a configuration error', async () => {
    const cause = new Error('no tracer');
    const tenant = tenantAt('https://api.example');
    const module = ExhibitorModule.forRoot({
      tenant,
      axios: () => {
        throw cause;
      },
    });
    const boot = NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
    await expect(boot).rejects.toMatchObject({ code: 'configuration_invalid', cause });
  });
});
