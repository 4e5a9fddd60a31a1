import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { requiredState } from './required-state.js';

/**
 * Who is logged in, an {@link ExhibitorIdentity}. Needs {@link ExhibitorIdentityGuard}, {@link ExhibitorGuard} or, at
 * the callback, {@link ExhibitorCallbackGuard}.
 *
 * @example
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
export const CurrentIdentity = createParamDecorator(
  (_: unknown, context: ExecutionContext) =>
    requiredState(context, 'CurrentIdentity', 'ExhibitorIdentityGuard').session.identity,
);
