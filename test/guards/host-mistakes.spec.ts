import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { ErrorLog } from '../contexts/error-log.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, hostUser, signIn } from './signed-in.js';
import type { OtherOptions } from '../support/module-options.js';

const UNCONFIGURED = {
  statusCode: 500,
  message: 'The server is not configured for this',
  error: 'Internal Server Error',
  code: 'configuration_invalid',
};

/** Sets `request.user`, as a host does that keeps its users in tokens of its own. */
class SignedInGuard implements CanActivate {
  constructor(private readonly user: object) {}

  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<{ user?: object }>().user = this.user;
    return true;
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(['express', 'fastify'] as const)('a mistake of the host on %s', (kind) => {
  const log = new ErrorLog();
  let host: Host | undefined;
  afterEach(async () => {
    await host?.close();
    host = undefined;
    log.messages.length = 0;
  });

  async function start(options: OtherOptions, configure?: (app: Host['app']) => unknown): Promise<Host> {
    host = await startHost({
      kind,
      configure: async (app) => {
        app.useLogger(log);
        await configure?.(app);
      },
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
        ...options,
      }),
    });
    return host;
  }

  describe.each(['resolveTenant', 'resolveEvent', 'resolveExhibitor'] as const)('in %s', (option) => {
    /** Answers what a test sets, once somebody is logged in. */
    let answer: unknown;
    const path = (): string => `${host?.url}/events/world-2026/booth`;
    const good = { resolveTenant: 'default', resolveEvent: 'world-2026', resolveExhibitor: undefined }[
      option
    ];
    const startWith = async (): Promise<Visitor> => {
      answer = option === 'resolveExhibitor' ? undefined : good;
      return signIn(sandbox, await start({ [option]: () => answer }), 'olga.one');
    };

    it.each([
      ['a number', 7, 'number'],
      ['an object', { id: 'secret' }, 'object'],
      ['a list', ['secret'], 'object'],
      ['a promise of a boolean', Promise.resolve(true), 'boolean'],
    ])('that answers %s is 500 without a detail, and named in the log', async (_, wrong, type) => {
      const visitor = await startWith();
      expect((await visitor.visit(path())).status).toBe(200);
      sandbox.clearRequests();
      answer = wrong;
      const reply = await visitor.visit(path());
      expect([reply.status, bodyOf(reply)]).toEqual([500, UNCONFIGURED]);
      expect(log.messages.join('\n')).toContain(`${option}: must answer a string or undefined, not ${type}`);
      expect(log.messages.join('\n')).not.toContain('secret');
      if (option !== 'resolveExhibitor') {
        expect(sandbox.requests).toHaveLength(0);
      }
    });
  });

  it("with session: 'host', no Passport and no storeIdentity refuses the login, and names both", async () => {
    await start({ session: 'host' });
    sandbox.signInAs('olga.one');
    const reply = await new Visitor().follow(`${host?.url}/auth/login`);
    expect([reply.status, bodyOf(reply)]).toEqual([500, UNCONFIGURED]);
    expect(reply.setCookies.filter((cookie) => !cookie.startsWith('exhibitor-login'))).toEqual([]);
    expect(log.messages.join('\n')).toContain(
      "session: 'host' needs request.logIn of Passport, or ExhibitorCallbackGuard.storeIdentity of your own",
    );
  });

  it("with session: 'host' and no removeIdentity ends the login all the same, and says what is missing", async () => {
    const user = {};
    const { callback } = await start({ session: 'host' }, (app) =>
      app.useGlobalGuards(new SignedInGuard(user)),
    );
    Object.assign(user, hostUser(sandbox.tenantOptions('acme', { redirectUri: callback })));
    const visit = (path: string, method = 'GET') => new Visitor().visit(`${host?.url}${path}`, { method });
    expect((await visit('/me')).status).toBe(200);
    const left = await visit('/auth/logout', 'POST');
    expect([left.status, bodyOf(left)]).toEqual([500, UNCONFIGURED]);
    expect(log.messages.join('\n')).toContain('ExhibitorLogoutGuard.removeIdentity of your own');
    expect((await visit('/me')).status).toBe(401);
  });

  it('that takes logouts of the provider without looking for them is refused at boot', async () => {
    await expect(start({ logoutCheck: { provider: false } })).rejects.toThrow(
      'logoutCheck.provider: must be true where ExhibitorBackChannelLogoutGuard is used',
    );
  });
});
