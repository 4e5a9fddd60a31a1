/** The lines for nginx of docs/operations.md, as they are, in front of a host. */
import { Controller, Get, UseGuards, type INestApplication } from '@nestjs/common';
import { expect, it } from '@jest/globals';
import helmet from 'helmet';
import {
  CurrentIdentity,
  ExhibitorIdentityGuard,
  type ExhibitorIdentity,
  type LoginRoutes,
} from '../../lib/index.js';
import { defaultSeed } from '../../lib/development/testing/index.js';
import { bodyOf } from '../nest/signed-in.js';
import { namedSnippets } from '../structure/readme.js';
import { acmeOptions, startHost } from '../support/host.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { describeWithNginx, Nginx } from '../support/nginx.js';
import { freePort } from '../support/server.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor, type Reply } from '../support/visitor.js';

const [SITE] = namedSnippets('docs/operations.md', 'nginx');
const WHOLE = SITE.slice(SITE.indexOf('  location /'), SITE.lastIndexOf('}'));
const BUFFERS = /proxy_buffer.*\n/g;

/** Of a person whose login sets large cookies. */
const EMAIL = 'wanda@example.com';
const people = [{ sub: 'wanda', name: 'W'.repeat(300), email: EMAIL, emailVerified: true }];
const closing = useClosing();
const sandbox = await useSandbox({ seed: { ...defaultSeed(), people } });

@Controller()
class MineController {
  @Get('mine')
  @UseGuards(ExhibitorIdentityGuard)
  mine(@CurrentIdentity() { email }: ExhibitorIdentity) {
    return { email };
  }
}

describeWithNginx('a host behind nginx', (path) => {
  interface Site {
    location: string;
    prefix: string;
    routes: LoginRoutes | string;
    configure?: (app: INestApplication) => unknown;
    edit?: (lines: string) => string;
  }

  /** Starts nginx, and one process of the host beside one that is down; visits `mine`, and logs in where that leads. */
  async function logIn(
    site: Site,
  ): Promise<{ visitor: Visitor; page: Reply & { url: string }; nginx: Nginx }> {
    const { location, prefix, routes, edit = (lines) => lines } = site;
    const port = await freePort();
    const closed = await freePort();
    const nginx = closing(
      await Nginx.start(path, (listen) =>
        edit(SITE.replace(WHOLE, location))
          .replace('443 ssl', listen)
          .replace(/server 10\.0\.0\.1:3000/, `server 127.0.0.1:${port}`)
          .replace(/server 10\.0\.0\.2:3000/, `server 127.0.0.1:${closed}`),
      ),
    );
    closing(
      await startHost({
        port,
        controllers: [MineController],
        configure: (app) => {
          app.use(helmet());
          return site.configure?.(app);
        },
        options: () => {
          const options = acmeOptions(sandbox, { isGlobal: true, routes })(
            `${nginx.url}${prefix}/auth/callback`,
          );
          Object.assign(options.tenant?.login ?? {}, { endSession: true });
          return options;
        },
      }),
    );
    sandbox.signInAs('wanda');
    const visitor = new Visitor();
    const page = await visitor.follow(`${nginx.url}${prefix}/mine`, undefined, { accept: 'text/html' });
    return { visitor, page, nginx };
  }

  it.each(['whole', 'kept', 'stripped'] as const)('logs in and out, its path %s', async (kind) => {
    const prefix = kind === 'whole' ? '' : '/portal';
    const stripped = await loadSnippets<{ routes: LoginRoutes }>('operations.md', 'prefix');
    const { visitor, page, nginx } = await logIn({
      location: kind === 'whole' ? WHOLE : namedSnippets('docs/operations.md', `nginx ${kind}`)[0],
      prefix,
      routes: kind === 'stripped' ? stripped.routes : 'auth',
      configure: (app) => kind === 'kept' && app.setGlobalPrefix('portal'),
    });
    expect([page.status, page.url]).toEqual([200, `${nginx.url}${prefix}/mine`]);
    expect(bodyOf(page)).toEqual({ email: EMAIL });
    // An old browser: `Origin` is compared with `Host`.
    const headers = { origin: nginx.url };
    const logout = await visitor.visit(`${nginx.url}${prefix}/auth/logout`, { form: {}, headers });
    expect(logout.location).toContain('/connect/endsession');
    expect((await visitor.visit(`${nginx.url}${prefix}/mine`)).status).toBe(401);
  });

  it.each([
    ['max_fails=3 fail_timeout=5s', 401],
    ['', 502],
  ])(
    'ends a login in 502 with the default buffer, and with %j a request after it in %i',
    async (fails, status) => {
      const edit = (lines: string): string =>
        lines.replace(BUFFERS, '').replaceAll('max_fails=3 fail_timeout=5s', fails);
      const { visitor, page, nginx } = await logIn({
        location: WHOLE,
        prefix: '',
        routes: 'auth',
        edit,
      });
      expect([page.status, new URL(page.url).pathname]).toEqual([502, '/auth/callback']);
      expect(nginx.said).toContain('upstream sent too big header');
      expect((await visitor.visit(`${nginx.url}/auth/me`)).status).toBe(status);
      expect(nginx.said.includes('no live upstreams')).toBe(status === 502);
    },
  );
});
