import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { TenantSettings } from '../options/tenant-settings.js';

const WHITE_SPACE = 'begins or ends with white space, which is part of the secret; was it copied by mistake?';

/** Warns at boot of values that are allowed and most likely mistakes. Tenants of a source are not known at boot. */
@Injectable()
export class OnboardingAdvice implements OnModuleInit {
  readonly #logger = new Logger('nestjs-exhibitor');
  readonly #options: CheckedOptions;

  constructor(@Inject(CHECKED_OPTIONS) options: CheckedOptions) {
    this.#options = options;
  }

  onModuleInit(): void {
    const { settings, tenants, pathOf } = this.#options;
    settings.secrets.forEach((secret, index) => this.#adviseSecret(`secrets.${index}`, secret));
    if ('find' in tenants) {
      return;
    }
    for (const [key, tenant] of tenants) {
      this.#adviseTenant(pathOf(key), tenant);
    }
  }

  #adviseTenant(path: string, { clientSecret, login }: TenantSettings): void {
    this.#adviseSecret(`${path}.clientSecret`, clientSecret);
    this.#adviseSecret(`${path}.login.clientSecret`, login?.clientSecret);
    const scopes = login?.scope.split(' ') ?? [];
    if (login?.redirectUri === undefined || scopes.includes('profile') || scopes.includes('email')) {
      return;
    }
    this.#logger.warn(
      `${path}.login.scope: has neither 'profile' nor 'email', so the provider may send no e-mail address; every login is then ` +
        'refused (email_missing)',
    );
  }

  #adviseSecret(path: string, secret: unknown): void {
    if (typeof secret === 'string' && secret.trim() !== secret) {
      this.#logger.warn(`${path}: ${WHITE_SPACE}`);
    }
  }
}
