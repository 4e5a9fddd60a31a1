import { Inject, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { memberOf } from '../http/host-members.js';
import { isHybrid } from '../login/browser-login.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { ExhibitorCallbackGuard } from './exhibitor-callback.guard.js';
import { observeRoutes, type IsServed } from './served-routes.js';

/**
 * Warns at boot of each `redirectUri` whose path no route of the host serves: every login would end in a 404. Says nothing
 * where a callback guard has a path of its own, which is for hosts behind a proxy that removes a prefix.
 */
@Injectable()
export class CallbackRouteAdvice implements OnApplicationBootstrap {
  readonly #logger = new Logger('nestjs-exhibitor');
  readonly #options: CheckedOptions;
  readonly #modules: ModulesContainer;
  readonly #routes: () => IsServed | undefined;

  constructor(
    @Inject(CHECKED_OPTIONS) options: CheckedOptions,
    @Inject(ModulesContainer) modules: ModulesContainer,
    @Inject(HttpAdapterHost) adapterHost: HttpAdapterHost,
  ) {
    this.#options = options;
    this.#modules = modules;
    this.#routes = observeRoutes(adapterHost.httpAdapter);
  }

  onApplicationBootstrap(): void {
    const { tenants, pathOf } = this.#options;
    const isServed = this.#routes();
    if ('find' in tenants || isServed === undefined || this.#hasOwnCallbackPath()) {
      return;
    }
    for (const [key, { login }] of tenants) {
      if (login?.redirectUri === undefined) {
        continue;
      }
      const method = isHybrid(login) ? 'POST' : 'GET';
      const { pathname } = new URL(login.redirectUri);
      if (!isServed(method, pathname)) {
        this.#logger.warn(`${pathOf(key)}.login.redirectUri: this host has no ${method} route ${pathname}`);
      }
    }
  }

  #hasOwnCallbackPath(): boolean {
    const own = memberOf(ExhibitorCallbackGuard.prototype, 'getCallbackPath');
    return [...this.#modules.values()]
      .flatMap((module) => [...module.injectables.values(), ...module.providers.values()])
      .some(({ metatype }) => {
        const prototype: unknown = typeof metatype === 'function' ? metatype.prototype : undefined;
        return prototype instanceof ExhibitorCallbackGuard && memberOf(prototype, 'getCallbackPath') !== own;
      });
  }
}
