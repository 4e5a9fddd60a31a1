import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import axios, { type AxiosInstance, type AxiosResponse, type InternalAxiosRequestConfig } from 'axios';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, isExhibitorError, type ExhibitorError } from '../../lib/index.js';
import { startRestHost, startService, wrapper, type Answer } from '../exhibitors/rest-host.js';
import { useClosing } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { sendJson } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
import { pause } from '../support/wait.js';

const TOKEN = 'token-of-the-hand-made-service';
const onePage: Answer = ({ page }) => wrapper(page, 1, 1);

const closing = useClosing();

/** A host whose interceptors are those of `configure`, beside a real service. */
async function hostWith(
  configure: (instance: AxiosInstance) => unknown,
  answer = onePage,
  http: OtherOptions['http'] = {},
) {
  const received: Record<string, unknown>[] = [];
  const service = await startService((request) => {
    received.push(request.request.headers);
    return answer(request);
  });
  const host = closing(await startRestHost({ tenant: service.tenant, axios: configure, http }));
  closing({ close: service.stop });
  const list = () => firstValueFrom(host.exhibitors.list('e'));
  const failure = async (): Promise<ExhibitorError> => {
    const error: unknown = await list().catch((reason: unknown) => reason);
    if (!isExhibitorError(error)) {
      throw new Error('the call must fail');
    }
    return error;
  };
  return { service, received, list, failure };
}

type Config = InternalAxiosRequestConfig;
/** A host with one interceptor. */
const onRequest = (use: (config: Config) => Config | Promise<Config>, http?: OtherOptions['http']) =>
  hostWith((instance) => instance.interceptors.request.use(use), onePage, http);
const onResponse = (
  use: (response: AxiosResponse) => AxiosResponse | Promise<AxiosResponse>,
  answer?: Answer,
  http?: OtherOptions['http'],
) => hostWith((instance) => instance.interceptors.response.use(use), answer, http);

const notSent = { code: 'service_unavailable', attempts: 0 };
const never = new Promise<never>(() => {});
const BRIEF = { deadline: 400 };
const page = { data: [{ id: 0 }] };

describe('a request interceptor', () => {
  it('adds headers, also asynchronously, to every request, and logs its address', async () => {
    const seen: string[] = [];
    const { list, received, service } = await onRequest(async (config) => {
      await pause(1);
      seen.push(`${config.method} ${config.url}`);
      config.headers.set({ 'X-Request-Id': 'one', 'User-Agent': 'a host' });
      return config;
    });
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
          Accept: 'text/html',
        });
        config.headers.set({ Host: 'another.example', 'Content-Length': '5' });
        return config;
      });
    });
    await expect(list()).resolves.toMatchObject(page);
    expect(service.urls).toEqual(['/api/v1/exhibitor/event/e?Page=1&ItemsPerPage=50']);
    const own = { 'x-tenant-id': 'hand-made', authorization: `Bearer ${TOKEN}`, accept: 'application/json' };
    expect(received).toMatchObject([{ ...own, host: new URL(service.tenant.baseUrl).host }]);
    expect(Object.keys(received[0] ?? {})).not.toContain('content-length');
  });

  it('that throws fails the call at once, without a request and without the circuit', async () => {
    const mistake = new Error('no trace here');
    let isBroken = true;
    const { list, failure, service } = await onRequest((config) => {
      if (isBroken) {
        throw mistake;
      }
      return config;
    });
    for (const call of Array.from({ length: 45 }, (_, index) => index)) {
      const error = await failure();
      expect([error, error.cause]).toEqual([expect.objectContaining(notSent), mistake]);
      if (call === 0) {
        // That was the request for a token; the others are those of the list.
        isBroken = false;
        await list();
        isBroken = true;
      }
    }
    expect(service.urls).toHaveLength(1);
    isBroken = false;
    await expect(list()).resolves.toMatchObject(page);
  });

  const reply = { data: 1, status: 200, statusText: '', headers: {} };
  it.each<[string, (config: Config) => Config, cause: unknown]>([
    [
      'sets no valid header',
      (config) => (config.headers.set('X-Name', 'Zoë ☃'), config),
      expect.objectContaining({ message: expect.stringMatching(/x-name/i) }),
    ],
    [
      'replaces the adapter',
      (config) => ({ ...config, adapter: async () => ({ ...reply, config }) }),
      expect.objectContaining({ message: expect.stringContaining('adapter') }),
    ],
    // The error of axios shows the token.
    ['cancels the request', (config) => ({ ...config, signal: AbortSignal.abort() }), undefined],
  ])('that %s fails the call, by an error that shows no value', async (_what, use, cause) => {
    const { failure } = await onRequest((config) => (config.method === 'get' ? use(config) : config));
    const error = await failure();
    expect(error).toMatchObject(notSent);
    expect(error.cause).toEqual(cause);
    expect(inspect(error, { depth: Infinity, showHidden: true })).not.toMatch(`Zoë|${TOKEN}`);
  });
});

describe('a response interceptor', () => {
  const isGet = ({ config }: AxiosResponse) => config.method === 'get';

  it('gets status and headers of each attempt, and no body', async () => {
    const seen: unknown[] = [];
    const { list } = await onResponse(
      (response) => {
        seen.push([response.config.method, response.status, response.headers['x-note'], response.data]);
        return response;
      },
      (request) => {
        request.response.setHeader('x-note', `reply ${request.count}`);
        return request.count === 1 ? sendJson(request.response, {}, 503) : onePage(request);
      },
    );
    await list();
    expect(seen).toEqual([
      ['post', 200, undefined, undefined],
      ['get', 503, 'reply 1', undefined],
      ['get', 200, 'reply 2', undefined],
    ]);
  });

  it.each([
    ['throws', new TypeError('response.data is undefined')],
    ['rejects without an error', undefined],
  ])('that %s fails the call without a retry', async (_what, mistake) => {
    const { failure, service } = await onResponse((response) =>
      isGet(response) ? Promise.reject(mistake) : response,
    );
    const error = await failure();
    expect(error).toMatchObject({ code: 'service_unavailable', status: 200, attempts: 1 });
    expect(error.cause).toBe(mistake);
    expect(service.urls).toHaveLength(1);
  });

  it('hears of a request without a reply, by an error without the token; the retry follows', async () => {
    const errors: unknown[] = [];
    const { list, service } = await hostWith(
      (instance) =>
        instance.interceptors.response.use(undefined, (error: unknown) => {
          errors.push(error);
          throw error;
        }),
      (request) => (request.count === 1 ? void request.response.destroy() : onePage(request)),
    );
    await expect(list()).resolves.toMatchObject(page);
    expect(errors).toMatchObject([{ code: 'service_unavailable' }]);
    expect(inspect(errors, { depth: Infinity })).not.toContain(TOKEN);
    expect(service.urls).toHaveLength(2);
  });

  const html: Answer = ({ response }) => void response.setHeader('content-type', 'text/html').end('<p>');
  it('that sends a request once more and returns the first reply: that counts', async () => {
    const { list, service } = await hostWith(
      (instance) =>
        instance.interceptors.response.use(async (first) => {
          if (service.urls.length === 1) {
            await instance.request(first.config).catch(() => undefined);
          }
          return first;
        }),
      (request) => (request.count === 1 ? onePage(request) : html(request)),
    );
    await expect(list()).resolves.toMatchObject(page);
    expect(service.urls).toHaveLength(2);
  });

  it.each([
    ['succeeds', onePage],
    ['fails too', html],
  ])(
    'that sends a failed request once more, which %s, and throws the first error: the first reply counts',
    async (_what, again) => {
      const { failure, service } = await hostWith(
        (instance) => {
          let sent: Config | undefined;
          instance.interceptors.request.use((config) => (sent = config));
          let isFirst = true;
          instance.interceptors.response.use(undefined, async (first: unknown) => {
            if (isFirst && sent !== undefined) {
              isFirst = false;
              await instance.request(sent).catch(() => undefined);
            }
            throw first;
          });
        },
        (request) => (request.count === 1 ? html(request) : again(request)),
      );
      const error = await failure();
      expect(error).toMatchObject({ code: 'malformed_response', status: 200, attempts: 2 });
      expect([error.isOfHost, error.cause]).toEqual([undefined, undefined]);
      expect(service.urls).toHaveLength(2);
    },
  );
});

it.each<[of: string, attempts: number, hostWithSlow: (wait: () => boolean) => ReturnType<typeof hostWith>]>([
  ['request', 0, (wait) => onRequest((config) => (wait() ? never : config), BRIEF)],
  ['response', 1, (wait) => onResponse((response) => (wait() ? never : response), undefined, BRIEF)],
])(
  'a %s interceptor that is slow ends with the deadline, and is no slow service',
  async (_, attempts, start) => {
    let isSlow = false;
    const { list, failure } = await start(() => isSlow);
    await list();
    isSlow = true;
    for (const error of await Promise.all(Array.from({ length: 45 }, failure))) {
      expect(error).toMatchObject({ code: 'deadline_exceeded', attempts });
    }
    isSlow = false;
    await expect(list()).resolves.toMatchObject(page);
  },
);

describe('the axios instance', () => {
  it('is configured once, at boot, and has nothing of the defaults that the host set', async () => {
    let configured = 0;
    axios.defaults.headers.common['X-Of-Another-Service'] = 'a secret';
    try {
      const { list, received } = await hostWith(() => (configured += 1));
      await list();
      await list();
      expect(configured).toBe(1);
      expect(received[0]).not.toHaveProperty('x-of-another-service');
    } finally {
      delete axios.defaults.headers.common['X-Of-Another-Service'];
    }
  });

  const cause = new Error('no tracer');
  it.each<[string, () => unknown, object]>([
    ['is asynchronous, and rejects', async () => Promise.reject(cause), { problems: [{ path: 'axios' }] }],
    [
      'throws',
      () => {
        throw cause;
      },
      { cause },
    ],
  ])('whose configuration %s is a configuration error', async (_what, configure, failure) => {
    const module = ExhibitorModule.forRoot({ tenant: tenantAt(), axios: configure });
    const boot = NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
    await expect(boot).rejects.toMatchObject({ code: 'configuration_invalid', ...failure });
  });
});
