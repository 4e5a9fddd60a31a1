import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { requiredState } from './required-state.js';

/**
 * Key of the tenant the person is logged in at. Needs {@link ExhibitorIdentityGuard} or another guard of this package.
 *
 * @example
 * page(@CurrentTenant() tenant: string) { return this.exhibitors.list(eventId, { tenant }); }
 */
export const CurrentTenant = createParamDecorator(
  (_: unknown, context: ExecutionContext) =>
    requiredState(context, 'CurrentTenant', 'ExhibitorIdentityGuard').session.tenant.key,
);
