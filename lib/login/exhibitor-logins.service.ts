import { Inject, Injectable } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { EndedLogins } from './ended-logins.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { loginOf } from '../config/tenant.js';
import { Clock } from '../call/clock.js';

/** One login, by the id of its identity; or every login of a user so far. */
export type LoginsToEnd = { id: string } | { tenant: string; subject: string };

/**
 * Ends logins by code: of a stolen account, or of a user who lost the right to log in. With `store` in all processes, else in this
 * one. Bearer tokens are not affected.
 *
 * @example
 * await this.logins.end({ tenant: 'acme', subject: user.subject });
 */
@Injectable()
export class ExhibitorLogins {
  readonly #hearsProvider: boolean;

  /** @internal */
  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#hearsProvider = settings.logoutCheck.provider;
  }

  /**
   * Ends one login by the `id` of its identity, or all logins of a user at this tenant that began until now, by the clock of this host
   * (their start is by that of the provider). The user can log in again: `login.authorize` decides about that. A `subject` is looked for
   * only with `logoutCheck: { provider: true }`.
   *
   * @throws {ExhibitorError} `invalid_argument` without an id, or a subject; `unknown_tenant`; `configuration_invalid` for a subject
   * without `logoutCheck.provider`, or of a tenant without `login`; `service_unavailable` where the `store` did not take the end of a
   * user's logins, which then holds in this process only: call again
   */
  async end(logins: LoginsToEnd): Promise<void> {
    if ('id' in logins) {
      await this.ended.end(requireText('id', logins.id));
      return;
    }
    const subject = requireText('subject', logins.subject);
    if (!this.#hearsProvider) {
      throw new ConfigurationError([
        { path: 'logoutCheck.provider', expected: 'must be true to end the logins of a subject' },
      ]);
    }
    const tenant = await this.tenants.get(logins.tenant);
    loginOf(tenant);
    const { key, registration } = tenant;
    const at = this.clock.epochMs();
    if (!(await this.ended.endBefore({ registration, tenant: key, subject, at }))) {
      throw new ExhibitorError('service_unavailable', 'the store did not take the end of these logins', {
        tenant: tenant.key,
      });
    }
  }
}

/** The ends of users and sessions are recorded beside the ids, under names that begin with `[`. Ended as an id, one would lose its time. */
function requireText(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '' && !(name === 'id' && value.startsWith('['))) {
    return value;
  }
  throw new ExhibitorError('invalid_argument', `${name}: must be that of an identity`);
}
