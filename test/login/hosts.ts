import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { INestApplication, Type } from '@nestjs/common';
import type { ExhibitorModuleOptions, HttpOptions, LoginRoutes } from '../../lib/index.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';

/** Options of a host, beside those of the module. */
export interface Given extends OtherOptions {
  kind?: HostKind;
  controllers?: Type[];
  configure?: (app: INestApplication) => unknown;
  /** Routes of the module, beside those of the controllers. */
  routes?: string | LoginRoutes;
  /** Default: the callback of the host itself. */
  redirectUri?: string;
  login?: LoginOverrides;
  tenantHttp?: HttpOptions;
}

/** In place of one tenant of the provider. */
export type OwnOptions = (callback: string, url: string) => ExhibitorModuleOptions;

/** The tenant that a request of a test names. */
const resolveTenant: OtherOptions['resolveTenant'] = ({ query, headers }) =>
  (query['tenant'] ?? headers['x-tenant']) as string | undefined;

/**
 * Starts two scripted providers for a suite, and takes back their scripts after each case. Answers what starts hosts with one tenant of
 * the first; they are closed after the suite. Hosts with options of their own find a tenant by the query, or by `X-Tenant`.
 */
export function withProvider(
  opened: (provider: ScriptedProvider, other: ScriptedProvider) => void,
): (given?: Given, own?: OwnOptions) => Promise<Host> {
  let provider: ScriptedProvider;
  let other: ScriptedProvider;
  const hosts: Host[] = [];
  beforeAll(async () => {
    [provider, other] = [await ScriptedProvider.start(), await ScriptedProvider.start()];
    opened(provider, other);
  });
  afterEach(() => {
    provider.script = {};
    other.script = {};
  });
  afterAll(async () => {
    await Promise.all(hosts.map((host) => host.close()));
    await Promise.all([provider?.stop(), other?.stop()]);
  });
  return async (
    { kind, controllers, configure, redirectUri, login, tenantHttp: http, ...others } = {},
    own,
  ) => {
    const secrets = [COOKIE_SECRET];
    const host = await startHost({
      kind,
      controllers,
      configure,
      options: (callback, url) =>
        own === undefined
          ? {
              tenant: { ...provider.tenantOptions(redirectUri ?? callback, login), http },
              secrets,
              ...others,
            }
          : { secrets, resolveTenant, ...others, ...own(callback, url) },
    });
    hosts.push(host);
    return host;
  };
}
