import { TenantRegistry } from '../../lib/index.js';
import type { CheckedOptions } from '../../lib/options/check-options.js';
import { Generations } from '../../lib/store/generations.service.js';
import { Outbox } from '../../lib/store/outbox.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import type { Clock } from '../../lib/time/clock.js';

/** The tenants of these options, without an application. */
export function registryOf(options: CheckedOptions, clock: Clock): TenantRegistry {
  const values = new SharedValues(options, new Sealer(options, clock), clock);
  const generations = new Generations(options, values, new Outbox(values, clock), clock);
  return new TenantRegistry(options, clock, generations);
}
