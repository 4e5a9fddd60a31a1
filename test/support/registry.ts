import { TenantRegistry } from '../../lib/index.js';
import type { CheckedOptions } from '../../lib/config/check-options.js';
import { ProblemLog } from '../../lib/config/problems/problem-log.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Calls } from '../../lib/call/calls.service.js';
import type { Clock } from '../../lib/call/clock.js';
import { Rests } from '../../lib/call/partner.js';

/** The values that processes with these options share, without an application. */
export function sharedValuesOf(options: CheckedOptions, clock: Clock): SharedValues {
  return new SharedValues(
    options,
    new Sealer(options, clock),
    clock,
    new Rests(clock),
    new ProblemLog(options, clock),
  );
}

/** The tenants of these options, without an application. */
export function registryOf(options: CheckedOptions, clock: Clock): TenantRegistry {
  return new TenantRegistry(
    options,
    new Calls(clock),
    clock,
    new Rests(clock),
    new ProblemLog(options, clock),
  );
}
