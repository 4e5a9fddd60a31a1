import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { isHybrid } from './browser-login.js';

/**
 * Warns at boot of each tenant with the hybrid flow: its response sends tokens through the browser, so `code` is recommended
 * (RFC 9700 §2.1.2). Tenants of a source are not known at boot.
 */
@Injectable()
export class HybridAdvice implements OnModuleInit {
  readonly #logger = new Logger('nestjs-exhibitor');
  readonly #tenants: CheckedOptions['tenants'];

  constructor(@Inject(CHECKED_OPTIONS) { tenants }: CheckedOptions) {
    this.#tenants = tenants;
  }

  onModuleInit(): void {
    const tenants = this.#tenants;
    if ('find' in tenants) {
      return;
    }
    for (const [key, { login }] of tenants) {
      if (login === undefined || !isHybrid(login)) {
        continue;
      }
      this.#logger.warn(
        `tenant ${key}: login.responseType '${login.responseType}' sends tokens through the browser; ` +
          "if the provider supports it, 'code' is recommended",
      );
    }
  }
}
