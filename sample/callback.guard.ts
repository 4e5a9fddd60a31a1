import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorCallbackGuard, LoginFailedError, type ExhibitorError } from 'nestjs-exhibitor';

/**
 * Leads a person whose login failed to a page that says why and offers a new login, with the event and the return address of
 * the failed one. The page has an address of its own, so that it can be reloaded.
 */
@Injectable()
export class CallbackGuard extends ExhibitorCallbackGuard {
  protected override onLoginFailed(error: ExhibitorError, context: ExecutionContext): void {
    const { eventId, returnTo } = this.getStartedLogin(context) ?? {};
    const query = new URLSearchParams({
      problem: error instanceof LoginFailedError ? error.reason : error.code,
      ...(eventId === undefined ? {} : { eventId }),
      ...(returnTo === undefined ? {} : { returnTo }),
    });
    // Relative to the callback of the tenant.
    this.redirect(context, `problem?${query}`);
  }
}
