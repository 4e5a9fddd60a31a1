import { Inject, Logger, Optional, type InjectionToken } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { MODULE_OPTIONS_TOKEN } from '../../exhibitor.module.js';
import type { ExhibitorModuleOptions } from '../../index.js';

/**
 * The options that an application gives to its `ExhibitorModule`, whose provider a test has replaced. `undefined`, with a warning, where
 * its factory fails, as one may without the environment of the application.
 */
export async function readApplicationOptions(
  module: ModuleRef,
): Promise<Partial<ExhibitorModuleOptions> | undefined> {
  const { token = '' } = moduleOf(module) ?? {};
  const given = module['container']
    .getDynamicMetadataByToken(token, 'providers')
    ?.find((one) => typeof one === 'object' && one.provide === MODULE_OPTIONS_TOKEN);
  if (given !== undefined && 'useValue' in given) {
    return Object(given.useValue);
  }
  if (given === undefined || !('useFactory' in given)) {
    return undefined;
  }
  const { useFactory, inject = [] } = given;
  class Factory {
    readonly options: Promise<unknown>;

    constructor(...injected: unknown[]) {
      this.options = Promise.resolve().then(() => useFactory(...injected));
    }
  }
  inject.forEach((dependency, index) => injectInto(Factory, dependency, index));
  try {
    return Object(await (await module.create(Factory)).options);
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'its factory failed';
    new Logger('nestjs-exhibitor').warn(
      `ExhibitorTestingModule reads no options of the application: ${reason}. Give those that the test needs: resolveTenant, ` +
        'resolveEvent, resolveExhibitor, lookupCache',
    );
    return undefined;
  }
}

/** The module whose providers this reference finds. */
export function moduleOf(reference: ModuleRef) {
  const modules = [...reference['container'].getModules().values()];
  return modules.find(({ providers }) => providers.get(ModuleRef)?.instance === reference);
}

type Dependency = InjectionToken | { token: InjectionToken; optional: boolean };

function injectInto(target: object, dependency: Dependency, index: number): void {
  const isDescribed = typeof dependency === 'object' && 'token' in dependency;
  Inject(isDescribed ? dependency.token : dependency)(target, undefined, index);
  if (isDescribed && dependency.optional) {
    Optional()(target, undefined, index);
  }
}
