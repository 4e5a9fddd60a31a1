/** What handlers and controllers say about requests without a user. */
import { GUARDS_METADATA } from '@nestjs/common/constants.js';
import { Reflector } from '@nestjs/core';

/** Key of the metadata of `@AllowAnonymous()`. */
export const ALLOW_ANONYMOUS = Symbol.for('nestjs-exhibitor.allow-anonymous');

/** A handler or a controller. */
type Target = Parameters<Reflector['get']>[1];

const reflector = new Reflector();

/** What `@AllowAnonymous()` says on this handler or controller; `undefined` without it. */
export function declaredOn(target: Target): boolean | undefined {
  return reflector.get<boolean | undefined>(ALLOW_ANONYMOUS, target);
}

/** The classes and instances in `@UseGuards` of this handler or controller. */
export function guardsOn(target: Target): readonly unknown[] {
  return reflector.get<unknown[] | undefined>(GUARDS_METADATA, target) ?? [];
}

/** True where this guard stands in `@UseGuards` of the handler or controller. */
export function standsOn(target: Target, guard: object): boolean {
  return guardsOn(target).some((given) => given === guard || given === guard.constructor);
}
