import { Inject, Injectable, Optional } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import { ExhibitorGuardServices } from './guard-services.js';
import { DECIDE, neverSettle, RouteGuard, SERVICES } from './route-guard.js';
import { messageFor } from './to-http-exception.js';

/**
 * Receives logouts of the provider (OpenID Connect Back-Channel Logout 1.0): the form field `logout_token` of a POST request.
 * Identities of that session, and those of that user which began before the logout (where the token names a session, only those without
 * one), are no longer accepted; with `store`, in every process. Bearer tokens are not affected. A fixed tenant is found by issuer and
 * audience of the token; `getTenant` names one of a source. The guard answers itself, and the handler never runs: 200, 400 where the token
 * is refused or cannot be checked, or 503 where the `store` did not take the logout. Requires `logoutCheck: { provider: true }`, in every
 * application that accepts these identities; else the application does not start (`configuration_invalid`).
 *
 * @example
 * @Post('auth/backchannel-logout') @UseGuards(ExhibitorBackChannelLogoutGuard) backChannelLogout() {}
 */
@Injectable()
export class ExhibitorBackChannelLogoutGuard extends RouteGuard {
  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    super(services);
    if (!this[SERVICES].settings().logoutCheck.provider) {
      const expected =
        'must be true where ExhibitorBackChannelLogoutGuard is used: no guard looks for its logouts';
      throw new ConfigurationError([{ path: 'logoutCheck.provider', expected }]);
    }
  }

  /** @internal */
  protected override async [DECIDE](http: HttpContext): Promise<never> {
    http.setHeader('Cache-Control', 'no-store');
    const isRecorded = await this[SERVICES].providerLogouts.receive(http, () => this.getTenant(http));
    http.reply(isRecorded ? 200 : 503);
    return neverSettle();
  }

  /** Answers 400 for an {@link ExhibitorError}, as the specification requires. Other errors are thrown as they are. */
  protected override onFailure(http: HttpContext, error: unknown): Promise<never> {
    if (!isExhibitorError(error)) {
      throw error;
    }
    this[SERVICES].log.reportMistake(error);
    http.reply(400, { error: 'invalid_request', error_description: messageFor(error) });
    return neverSettle();
  }
}
