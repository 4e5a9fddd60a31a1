import { TenantRegistry } from '../../lib/index.js';
import type { CheckedOptions } from '../../lib/options/check-options.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import type { Clock } from '../../lib/time/clock.js';

/** The tenants of these options, without an application. */
export function registryOf(options: CheckedOptions, clock: Clock): TenantRegistry {
  return new TenantRegistry(options, clock, new ProblemLog(options, clock));
}
