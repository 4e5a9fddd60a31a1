/** Whether a route finishes the logins of each `redirectUri`. Else the first person who logs in meets a 404. */
import { Logger, RequestMethod, type Provider } from '@nestjs/common';
import { MODULE_PATH, PATH_METADATA, VERSION_METADATA } from '@nestjs/common/constants.js';
import {
  ApplicationConfig,
  DiscoveryService,
  HttpAdapterHost,
  MetadataScanner,
  ModulesContainer,
} from '@nestjs/core';
import { PathsExplorer } from '@nestjs/core/router/paths-explorer.js';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import { guardsOn } from './guards/execution-context.js';
import { ExhibitorCallbackGuard } from './guards/exhibitor-callback.guard.js';
import { isRecord } from './model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from './options/check-options.js';

/** Warns once the application listens. One without HTTP never does, nor one that is mounted below a path of another. */
export const CALLBACK_CHECK: Provider = {
  provide: Symbol('nestjs-exhibitor:callback-check'),
  inject: [CHECKED_OPTIONS, HttpAdapterHost, ApplicationConfig, ModulesContainer],
  useFactory: (
    options: CheckedOptions,
    host: HttpAdapterHost,
    ...application: [ApplicationConfig, ModulesContainer]
  ) =>
    host.listen$.subscribe(() => {
      const routes = callbackRoutes(...application);
      const missing = callbacksOf(options).find(({ call }) => !routes.some((route) => answers(route, call)));
      if (missing !== undefined) {
        const found = routes.length > 0 ? `the callbacks here are ${routes.join(', ')}` : NO_CALLBACKS;
        const message = `no route with ExhibitorCallbackGuard answers ${missing.call}; ${found}`;
        new Logger('nestjs-exhibitor').warn(`${missing.option}: ${message}`);
      }
    }),
};

const NO_CALLBACKS =
  "set routes: 'auth' beside isGlobal, or write one; routes: false if another application has the login routes";

/** What the providers of the fixed tenants call, such as `GET /auth/callback`. */
function callbacksOf({ tenants, settings, pathOf }: CheckedOptions): { option: string; call: string }[] {
  const fixed = 'find' in tenants || settings.session.join() === 'bearer' ? [] : [...tenants];
  return fixed.flatMap(([key, { login }]) => {
    const method = login?.responseType === 'code' ? 'GET' : 'POST';
    return login?.redirectUri === undefined
      ? []
      : {
          option: `${pathOf(key)}.login.redirectUri`,
          call: `${method} ${new URL(login.redirectUri).pathname}`,
        };
  });
}

/** The routes with a callback guard, as Nest registers them. */
function callbackRoutes(config: ApplicationConfig, modules: ModulesContainer): string[] {
  const explorer = new PathsExplorer(new MetadataScanner());
  const factory = new RoutePathFactory(config);
  const versioningOptions = config.getVersioning();
  return new DiscoveryService(modules).getControllers().flatMap(({ instance, host }) => {
    const read = (key: string, of: object = host?.metatype ?? Object) => Reflect.getMetadata(key, of);
    const controller = instance.constructor;
    const ofController = {
      versioningOptions,
      globalPrefix: config.getGlobalPrefix(),
      modulePath: read(MODULE_PATH + modules.applicationId) ?? read(MODULE_PATH),
      ctrlPath: read(PATH_METADATA, controller),
      controllerVersion: read(VERSION_METADATA, controller) ?? versioningOptions?.defaultVersion,
    };
    return explorer.scanForPaths(instance).flatMap(({ path, requestMethod, targetCallback, version }) => {
      const reader = [...guardsOn(targetCallback), ...guardsOn(controller)].map(pathReaderOf).find(Boolean);
      if (reader === undefined) {
        return [];
      }
      const paths = path.flatMap((methodPath) =>
        factory.create({ ...ofController, methodPath, methodVersion: version }, requestMethod),
      );
      const methods = requestMethod === RequestMethod.ALL ? ['GET', 'POST'] : [RequestMethod[requestMethod]];
      // A guard with a reader of its own is behind a proxy that changes the path.
      const seen = reader === pathReaderOf(ExhibitorCallbackGuard) ? paths : ['/*'];
      return methods.flatMap((method) => seen.map((one) => `${method} ${one}`));
    });
  });
}

/** How a callback guard reads the path of a request. Other guards have no such method. */
function pathReaderOf(guard: unknown): unknown {
  const prototype: unknown = typeof guard === 'function' ? guard.prototype : guard;
  return isRecord(prototype) ? prototype['getCallbackPath'] : undefined;
}

/** True also in doubt: a wildcard, an optional part or an expression. A router may ignore case and the last slash. */
function answers(route: string, call: string): boolean {
  // A path of either may be escaped already.
  const [own = [], called = []] = [route, call].map((text) =>
    encodeURI(text).replaceAll('%25', '%').toLowerCase().split('/').filter(Boolean),
  );
  const isSame =
    own.length === called.length && own.every((part, at) => part.includes(':') || part === called[at]);
  return isSame || (/[*{(]/.test(route) && own[0] === called[0]);
}
