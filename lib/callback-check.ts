/** Compares the path of each `redirectUri` with the callbacks that are registered. Else the first login would end with a 404. */
import { Logger, type Provider } from '@nestjs/common';
import { MODULE_PATH, PATH_METADATA, VERSION_METADATA } from '@nestjs/common/constants.js';
import { ApplicationConfig, HttpAdapterHost, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { PathsExplorer } from '@nestjs/core/router/paths-explorer.js';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import { guardsOn } from './guards/execution-context.js';
import { ExhibitorCallbackGuard } from './guards/exhibitor-callback.guard.js';
import { CHECKED_OPTIONS, type CheckedOptions } from './options/check-options.js';

/** Warns once the application listens. One without HTTP never does, nor one that is mounted below a path of another. */
export const CALLBACK_CHECK: Provider = {
  provide: Symbol('nestjs-exhibitor:callback-check'),
  inject: [CHECKED_OPTIONS, HttpAdapterHost, ApplicationConfig, ModulesContainer],
  useFactory: (
    { settings, tenants, pathOf }: CheckedOptions,
    host: HttpAdapterHost,
    ...application: [ApplicationConfig, ModulesContainer]
  ) =>
    host.listen$.subscribe(() => {
      const callbacks = [...new Set(callbackPaths(...application))];
      const fixed = 'find' in tenants || settings.session.join() === 'bearer' ? [] : tenants;
      for (const [key, { login }] of fixed) {
        const path = login?.redirectUri && new URL(login.redirectUri).pathname;
        if (path && !callbacks.some((callback) => mayServe(callback, path))) {
          const message = `no route with ExhibitorCallbackGuard has the path ${path}. Callbacks found: `;
          const found =
            callbacks.join(', ') || "none; routes: 'auth' registers one, routes: false ends this check";
          new Logger('nestjs-exhibitor').warn(`${pathOf(key)}.login.redirectUri: ${message}${found}`);
          return;
        }
      }
    }),
};

/** The paths of the routes with a callback guard, as Nest registers them; `*` behind a proxy that changes the path. */
function callbackPaths(config: ApplicationConfig, modules: ModulesContainer): string[] {
  const explorer = new PathsExplorer(new MetadataScanner());
  const factory = new RoutePathFactory(config);
  const versioningOptions = config.getVersioning();
  const { getMetadata } = Reflect;
  return [...modules.values()].flatMap(({ metatype, controllers }) =>
    [...controllers.values()].flatMap(({ instance }) =>
      explorer.scanForPaths(instance).flatMap(({ path, requestMethod, targetCallback, version }) => {
        const controller = instance.constructor;
        const reader = [...guardsOn(targetCallback), ...guardsOn(controller)].map(pathReaderOf).find(Boolean);
        if (reader !== pathReaderOf(ExhibitorCallbackGuard)) {
          return reader === undefined ? [] : '*';
        }
        const route = {
          versioningOptions,
          globalPrefix: config.getGlobalPrefix(),
          modulePath: getMetadata(MODULE_PATH + modules.applicationId, metatype),
          ctrlPath: getMetadata(PATH_METADATA, controller),
          controllerVersion: getMetadata(VERSION_METADATA, controller) ?? versioningOptions?.defaultVersion,
        };
        return path.flatMap((methodPath) =>
          factory.create({ ...route, methodPath, methodVersion: version }, requestMethod),
        );
      }),
    ),
  );
}

/** How a callback guard reads the path of a request. Other guards have no such method. */
function pathReaderOf(guard: unknown): unknown {
  return Object(Object(guard).prototype ?? guard).getCallbackPath;
}

/** True in doubt: where one of them is a pattern or has an escape. Routers may ignore case and the last slash. */
function mayServe(callback: string, path: string): boolean {
  const segmentsOf = (text: string): string[] => text.toLowerCase().split('/').filter(Boolean);
  const called = segmentsOf(path);
  const own = segmentsOf(callback).map((part, at) => (part.includes(':') ? called[at] : part));
  return own.join('/') === called.join('/') || !/^[\w/.~:-]*$/.test(callback + path);
}
