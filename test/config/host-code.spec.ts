/** What code of the host throws is one error line with its stack, 500 for a visitor, and the `cause` of the error. */
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ForbiddenException, type INestApplication } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { ExhibitorsService, TokenService, type ExhibitorModuleOptions } from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { idsOf, signIn } from '../nest/signed-in.js';

const sandbox = await useSandbox();
const closing = useClosing();
const lines = new OperatorLines();
beforeEach(() => lines.clear());

/** What the code of the host throws now; `undefined` lets it do its work. */
let thrown: unknown;
const work = <T>(result: T): T => {
  if (thrown !== undefined) {
    throw thrown;
  }
  return result;
};
beforeEach(() => void (thrown = undefined));

type Options = OtherOptions & Pick<ExhibitorModuleOptions, 'axios'>;
type TenantChange = { clientSecret?: () => string; login?: object };
type Change = { options?: Options; tenant?: () => TenantChange };

const schema = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value: unknown) => ({ value: work(value as Record<string, unknown>) }),
  },
} as const;

/** Of the sandbox, whose secrets are the same in each host. */
const secretOf = (): string => String(sandbox.tenantOptions('acme').clientSecret);
const loginSecretOf = (): string => String(sandbox.tenantOptions('acme').login.clientSecret);

interface Case {
  what: string;
  /** How the line begins. */
  path: string;
  change: Change;
  /** `guard`: a guarded request; `login`: the callback. */
  by: 'guard' | 'login';
  /** Default: those of the user. */
  page?: () => string;
}

const CASES: readonly Case[] = [
  {
    what: 'authorize',
    path: 'tenant.login.authorize',
    change: { tenant: () => ({ login: { authorize: () => work(true) } }) },
    by: 'login',
  },
  {
    what: 'authorize, as a promise',
    path: 'tenant.login.authorize',
    change: { tenant: () => ({ login: { authorize: async () => work(true) } }) },
    by: 'login',
  },
  {
    what: 'a request interceptor',
    path: 'axios',
    change: { options: { axios: ({ interceptors }) => interceptors.request.use((config) => work(config)) } },
    by: 'guard',
  },
  {
    what: 'a response interceptor',
    path: 'axios',
    change: { options: { axios: ({ interceptors }) => interceptors.response.use((reply) => work(reply)) } },
    by: 'login',
  },
  {
    what: 'exhibitorSchema',
    path: 'exhibitorSchema',
    change: { options: { exhibitorSchema: schema } },
    by: 'guard',
  },
  {
    what: 'resolveTenant',
    path: 'resolveTenant',
    change: { options: { resolveTenant: () => work('default') } },
    by: 'guard',
  },
  {
    what: 'resolveEvent, as a promise',
    path: 'resolveEvent',
    change: { options: { resolveEvent: async () => work('world-2026') } },
    by: 'guard',
  },
  {
    what: 'resolveExhibitor',
    path: 'resolveExhibitor',
    change: { options: { resolveExhibitor: () => work(undefined) } },
    by: 'guard',
  },
  {
    what: 'exhibitorId',
    path: 'exhibitorId',
    change: { options: { exhibitorId: (record: unknown) => work(String(Object(record).id)) } },
    by: 'guard',
    page: () => `booths/${idsOf(sandbox)[0]}`,
  },
  {
    what: 'clientSecret',
    path: 'tenant.clientSecret',
    change: { tenant: () => ({ clientSecret: () => work(secretOf()) }) },
    by: 'guard',
  },
  {
    what: 'login.clientSecret',
    path: 'tenant.login.clientSecret',
    change: { tenant: () => ({ login: { clientSecret: () => work(loginSecretOf()) } }) },
    by: 'login',
  },
];

function start(kind: HostKind, { options, tenant }: Change): Promise<Host> {
  return startHost({
    kind,
    configure: (app: INestApplication) => app.useLogger(lines),
    options: (redirectUri) => {
      const { login, ...others } = tenant?.() ?? {};
      const given = sandbox.tenantOptions('acme', { redirectUri });
      return {
        tenant: { ...given, ...others, login: { ...given.login, ...login } },
        secrets: [COOKIE_SECRET],
        lookupCache: false,
        ...options,
      };
    },
  });
}

/** Each case on one of the adapters: what a function throws has the same way to both. */
const KINDS: readonly HostKind[] = ['express', 'fastify'];
const ON = CASES.map((one, index) => ({ ...one, kind: KINDS[index % 2] ?? 'express' }));

describe.each(ON)('on $kind, code of the host that throws in $what', ({ kind, path, change, by, page }) => {
  let host: Host;
  let visitor: Visitor;
  beforeAll(async () => {
    thrown = undefined;
    host = await start(kind, change);
    visitor = await signIn(sandbox, host, 'sam.several');
  });
  afterAll(() => host?.close());

  async function reach(): Promise<Reply> {
    // The token must not be in memory.
    await host.app.get(TokenService).invalidate();
    // Lines of one cause are once a minute.
    clockOf(host.app).skip(60_000, ['now']);
    if (by === 'guard') {
      return visitor.visit(`${host.url}/events/world-2026/${page?.() ?? 'mine'}`);
    }
    return new Visitor().follow(`${host.url}/auth/login`, ({ pathname }) => pathname === '/');
  }

  it('is 500 in general words, and one line with its stack, without addresses and tokens', async () => {
    expect((await reach()).status).toBeLessThan(400);
    lines.clear();
    thrown = new TypeError('no row of pat@example\nsecond line, Bearer abcdefg, eyJhbGciOi.eyJ.x');
    Object.assign(Object(thrown), { password: 'of-the-database' });
    const reply = await reach();
    expect(reply.status).toBe(500);
    expect(JSON.parse(reply.text)).toMatchObject({ statusCode: 500, message: 'Internal Server Error' });
    expect(reply.text).not.toMatch(/row|second/);
    expect(lines.all).toEqual([
      expect.stringMatching(
        new RegExp(
          `^${path}: the function of the host failed \\(TypeError\\)\\n` +
            '    TypeError: no row of \\[removed\\]\\n    second line, Bearer \\[removed\\] \\[removed\\]\\n' +
            '        at .*host-code\\.spec',
        ),
      ),
    ]);
    expect(lines.errors).toHaveLength(1);
    expect(lines.errors[0]).not.toContain('of-the-database');
    expect(lines.errors[0]?.length).toBeLessThan(4_400);
  });

  it('answers an HttpException as it is', async () => {
    thrown = new ForbiddenException('not in this hall');
    const reply = await reach();
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      403,
      expect.objectContaining({ message: 'not in this hall' }),
    ]);
  });

  it('may throw an error of another realm, which has its stack', async () => {
    thrown = runInNewContext("new TypeError('of another realm')");
    await reach();
    expect(lines.errors).toEqual([expect.stringMatching(/TypeError: of another realm\n +at /)]);
  });

  it('may throw any value', async () => {
    for (const value of ['text of pat@example', null, 7]) {
      lines.clear();
      thrown = value;
      const reply = await reach();
      expect([value, reply.status, lines.errors.length]).toEqual([value, 500, 1]);
      expect(lines.errors[0]).not.toContain('@');
    }
  });
});

/** Errors of which something cannot be read. */
const UNREADABLE: readonly [string, (error: Error) => unknown][] = [
  ...['name', 'message', 'stack', 'code', 'cause'].map((name): [string, (error: Error) => unknown] => [
    `whose ${name} throws`,
    (error) => Object.defineProperty(error, name, { get: () => JSON.parse('') as unknown }),
  ]),
  ['whose stack is an object', (error) => Object.assign(error, { stack: {} })],
  ['whose stack is null', (error) => Object.assign(error, { stack: null })],
  ['whose message is a symbol', (error) => Object.assign(error, { message: Symbol('text') })],
  ['whose name is an object', (error) => Object.assign(error, { name: Object.create(null) as object })],
  ['of no class', () => ({ name: Object.create(null) as object })],
];

describe('an error that cannot be read', () => {
  it.each(UNREADABLE.filter(([what]) => /stack is|class/.test(what)))(
    '%s, is logged as any other',
    async (_, change) => {
      const host = closing(await start('express', { options: { exhibitorSchema: schema } }));
      thrown = change(new TypeError('a mistake'));
      await expect(firstValueFrom(host.app.get(ExhibitorsService).list('world-2026'))).rejects.toMatchObject({
        code: 'malformed_response',
      });
      expect(lines.all).toEqual([expect.stringMatching(/^exhibitorSchema: the function of the host failed/)]);
    },
  );

  it.each(UNREADABLE)('%s, of the store, fails no call', async (_, change) => {
    const fail = (): never => {
      throw change(new TypeError('a mistake'));
    };
    const store = { get: fail, set: fail, delete: fail };
    const host = closing(await start('express', { options: { store } }));
    await expect(host.app.get(TokenService).getToken()).resolves.toBeDefined();
    expect(lines.all).toEqual([expect.stringMatching(/^the shared store does not answer/)]);
  });
});

describe('an error of an interceptor that cannot be read', () => {
  it('fails the call, not the process', async () => {
    const host = closing(
      await start('express', {
        options: { axios: ({ interceptors }) => interceptors.request.use((config) => work(config)) },
      }),
    );
    thrown = new Proxy(new Error('a mistake'), { get: () => JSON.parse('') as unknown });
    const listed = firstValueFrom(host.app.get(ExhibitorsService).list('world-2026'));
    await expect(listed).rejects.toHaveProperty('isOfHost', true);
    expect(lines.all).toEqual([expect.stringMatching(/^axios: the function of the host failed/)]);
  });
});

describe('an error whose message was changed to a longer one', () => {
  it('keeps its frames', async () => {
    const host = closing(await start('express', { options: { exhibitorSchema: schema } }));
    thrown = Object.assign(new TypeError('short'), { message: 'long '.repeat(1_000) });
    await expect(firstValueFrom(host.app.get(ExhibitorsService).list('world-2026'))).rejects.toBeDefined();
    expect(lines.all).toEqual([expect.stringMatching(/\n        at .*host-code\.spec/)]);
  });
});

describe.each<HostKind>(['express', 'fastify'])('on %s, at run time', (kind) => {
  type Given = (redirectUri: string) => ExhibitorModuleOptions;
  const acme = (redirectUri: string, http = {}) => ({
    ...sandbox.tenantOptions('acme', { redirectUri }),
    http,
  });
  const ofSource = (fails: (origin: string) => boolean): Given => {
    return (redirectUri) => ({
      tenants: {
        find: () => ({
          ...acme(redirectUri),
          login: { ...acme(redirectUri).login, discovery: true, keys: undefined },
        }),
      },
      allowedOrigins: (origin) => {
        if (fails(origin)) {
          throw thrown;
        }
        return true;
      },
      resolveTenant: () => 'acme',
      tenantCache: { ttl: 3_600_000 },
      secrets: [COOKIE_SECRET],
    });
  };
  let asked = 0;
  const given: [string, string, Given][] = [
    ['allowedOrigins, of a tenant that is found', 'the option allowedOrigins fails', ofSource(() => true)],
    // The addresses of the options are asked before those of the metadata.
    [
      'allowedOrigins, of discovered addresses',
      'allowedOrigins: the function',
      ofSource(() => (asked += 1) > 3),
    ],
    [
      'http.dispatcher',
      'http.dispatcher: the function',
      (redirectUri) => ({
        tenant: {
          ...acme(redirectUri, { dispatcher: () => work(undefined) }),
          login: { ...acme(redirectUri).login, discovery: true, keys: undefined },
        },
        secrets: [COOKIE_SECRET],
      }),
    ],
  ];
  it.each(given)('%s that throws is 500 and one line with its stack', async (_, line, options) => {
    asked = 0;
    thrown = undefined;
    const configure = (app: INestApplication) => app.useLogger(lines);
    const host = closing(await startHost({ kind, configure, options }));
    for (const [value, status] of [
      [new TypeError('no row of pat@example'), 500],
      [new ForbiddenException('not in this hall'), 403],
      [null, 500],
    ] as const) {
      clockOf(host.app).skip(60_000, ['now']);
      lines.clear();
      thrown = value;
      expect((await new Visitor().visit(`${host.url}/auth/login`)).status).toBe(status);
      expect(lines.all).toEqual([expect.stringMatching(`^${line}`)]);
      expect(lines.errors[0]).toMatch(
        value === null ? /a value of the type|threw null/ : /\n +at .*host-code\.spec/,
      );
      expect(lines.errors[0]).not.toContain('@example');
    }
  });
});

describe('the error of a call', () => {
  it('has what the host threw as its cause, and is logged once a minute', async () => {
    const host = closing(await start('express', { options: { exhibitorSchema: schema } }));
    thrown = new TypeError('a mistake in the schema');
    const exhibitors = host.app.get(ExhibitorsService);
    for (let call = 0; call < 3; call++) {
      const listed = firstValueFrom(exhibitors.list('world-2026'));
      await expect(listed).rejects.toMatchObject({ code: 'malformed_response', cause: thrown });
    }
    expect(lines.all).toEqual([expect.stringMatching(/^exhibitorSchema: .*\n    TypeError: a mistake/)]);
    thrown = new RangeError('another one');
    await expect(firstValueFrom(exhibitors.list('world-2026'))).rejects.toMatchObject({ cause: thrown });
    expect(lines.all).toHaveLength(2);
    // Of a name that was logged, and from another place.
    thrown = new TypeError('a mistake in the schema');
    await expect(firstValueFrom(exhibitors.list('world-2026'))).rejects.toMatchObject({ cause: thrown });
    expect(lines.all).toHaveLength(3);
  });
});
