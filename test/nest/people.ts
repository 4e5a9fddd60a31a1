/** People at a host whose routes are those of the module: its pages for them, and what their browsers send. */
import { Controller, Get, UseGuards, type INestApplication, type Type } from '@nestjs/common';
import {
  AllowAnonymous,
  CurrentExhibitor,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  type Exhibitor,
  type ExhibitorModuleOptions,
  type LoginRoutes,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { COOKIE_SECRET, startHost, type Host, type HostOptions } from '../support/host.js';
import type { OperatorLines } from '../support/operator-lines.js';
import type { Reply, Visitor } from '../support/visitor.js';

/** What browsers send when a person opens an address, and for forms of a page of the host. */
export const PAGE = {
  accept: 'text/html,application/xhtml+xml',
  'sec-fetch-dest': 'document',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-site': 'same-origin',
};

export const open = (visitor: Visitor, url: string, headers: Record<string, string> = PAGE): Promise<Reply> =>
  visitor.visit(url, { headers });

@Controller()
export class SiteController {
  @Get()
  @AllowAnonymous()
  home(): string {
    return 'home';
  }

  @Get('events/:eventId/booth')
  @UseGuards(ExhibitorGuard)
  booth(@CurrentExhibitor() { id }: Exhibitor): string {
    return `booth ${String(id)}`;
  }

  @Get('profile')
  @UseGuards(ExhibitorIdentityGuard)
  profile(): string {
    return 'profile';
  }
}

export interface Given extends Partial<Omit<HostOptions, 'options'>> {
  /** Default: `auth`. */
  routes?: string | LoginRoutes;
  /** Path of `redirectUri`. */
  callback?: string;
  responseType?: 'code' | 'code id_token';
  options?: (url: string) => Partial<ExhibitorModuleOptions>;
}

/** Starts hosts with the routes of the module and the tenant acme of the sandbox, which log here. */
export const routesHosts =
  (sandbox: ExhibitorSandbox, log: OperatorLines, ...controllers: Type[]) =>
  ({
    routes = 'auth',
    callback = '/auth/callback',
    responseType,
    options,
    configure,
    ...others
  }: Given = {}): Promise<Host> =>
    startHost({
      controllers,
      options: (_, url) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri: `${url}${callback}`, responseType }),
        secrets: [COOKIE_SECRET],
        isGlobal: true,
        routes,
        ...(options?.(url) as object),
      }),
      ...others,
      configure: (app: INestApplication) => {
        app.useLogger(log);
        return configure?.(app);
      },
    });

/** Opens an address and follows each redirect; `at` may change the browser on the way. Answers the page and the paths. */
export async function browse(visitor: Visitor, url: string, at = (_path: string): void => undefined) {
  const way: string[] = [];
  const { origin } = new URL(url);
  const stopAt = (next: URL): boolean => {
    way.push(`${next.origin === origin ? '' : '*'}${next.pathname}`);
    at(next.pathname);
    return false;
  };
  return { ...(await visitor.follow(url, stopAt, PAGE)), way };
}
