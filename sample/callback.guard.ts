import { Injectable } from '@nestjs/common';
import {
  ExhibitorCallbackGuard,
  LoginFailedError,
  type ExhibitorError,
  type HttpContext,
} from 'nestjs-exhibitor';

/**
 * Leads a person whose login failed to a page that says why and offers a new login, with the event and the return address of
 * the failed one. The page has an address of its own, so that it can be reloaded.
 */
@Injectable()
export class CallbackGuard extends ExhibitorCallbackGuard {
  protected override async onLoginFailed(http: HttpContext, error: ExhibitorError): Promise<void> {
    const { eventId, returnTo } = (await this.getStartedLogin(http)) ?? {};
    const query = new URLSearchParams({
      problem: error instanceof LoginFailedError ? error.reason : error.code,
      ...(eventId === undefined ? {} : { eventId }),
      ...(returnTo === undefined ? {} : { returnTo }),
    });
    // Relative to the callback of the tenant.
    return this.redirect(http, `problem?${query}`);
  }
}
