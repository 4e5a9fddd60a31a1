import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { isHybrid } from './browser-login.js';

/**
 * Says at boot, once a tenant, that `code` is the better response type: a hybrid reply brings tokens through the
 * browser (RFC 9700 §2.1.2). Every one of them is checked all the same. Tenants of a source are not known at boot.
 */
@Injectable()
export class HybridAdvice implements OnModuleInit {
  readonly #logger = new Logger('nestjs-exhibitor');

  constructor(@Inject(CHECKED_OPTIONS) private readonly options: CheckedOptions) {}

  onModuleInit(): void {
    const { tenants } = this.options;
    if ('find' in tenants) {
      return;
    }
    for (const [key, { login }] of tenants) {
      if (login === undefined || !isHybrid(login)) {
        continue;
      }
      this.#logger.warn(
        `tenant ${key}: login.responseType '${login.responseType}' brings tokens through the browser; ` +
          "if the provider allows it, 'code' is recommended",
      );
    }
  }
}
