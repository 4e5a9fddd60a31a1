import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { INestApplication, Type } from '@nestjs/common';
import type { ExhibitorModuleOptions, HttpOptions } from '../../lib/index.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';

/** Options of a host, beside those of the module. */
export interface Given extends OtherOptions {
  kind?: HostKind;
  controllers?: Type[];
  configure?: (app: INestApplication) => unknown;
  /** Default: the callback of the host itself. */
  redirectUri?: string;
  login?: LoginOverrides;
  tenantHttp?: HttpOptions;
}

/** In place of one tenant of the provider. */
export type OwnOptions = (callback: string, url: string) => ExhibitorModuleOptions;

/**
 * Starts the scripted provider for a suite, and takes back its script after each case. Answers what starts hosts with one tenant of it;
 * they are closed after the suite.
 */
export function withProvider(
  opened: (provider: ScriptedProvider) => void,
): (given?: Given, own?: OwnOptions) => Promise<Host> {
  let provider: ScriptedProvider;
  const hosts: Host[] = [];
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    opened(provider);
  });
  afterEach(() => {
    provider.script = {};
  });
  afterAll(async () => {
    await Promise.all(hosts.map((host) => host.close()));
    await provider?.stop();
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
          : { secrets, ...others, ...own(callback, url) },
    });
    hosts.push(host);
    return host;
  };
}
