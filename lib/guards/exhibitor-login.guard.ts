import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { channels } from '../diagnostics/channels.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { browserLoginOf } from '../login/browser-login.js';
import { authorizationUrl } from '../login/exhibitor.strategy.js';
import type { HttpContext } from '../http/http-context.js';
import { LoginCookies } from '../login/login-cookies.service.js';
import { startLogin } from '../login/pending-login.js';
import { safeReturnTo } from '../login/return-to.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { LoginRoute } from './login-route.js';
import { RequestResolver } from './request-resolver.service.js';

/** An event id travels in a cookie, which has little room. */
const MAX_EVENT_BYTES = 128;

/**
 * Sends the browser to the identity provider. Takes `?returnTo=` (a path of this origin, else dropped) and the event
 * from the request. The handler is never run.
 *
 * @example
 * @Get('auth/login') @UseGuards(ExhibitorLoginGuard) login() {}
 */
@Injectable()
export class ExhibitorLoginGuard extends LoginRoute implements CanActivate {
  constructor(
    @Inject(RequestResolver) resolver: RequestResolver,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(LoginCookies) private readonly cookies: LoginCookies,
  ) {
    super(resolver);
  }

  protected override async handle(http: HttpContext, context: ExecutionContext): Promise<boolean> {
    requireNavigation(http);
    const tenant = await this.tenants.resolve(await this.resolver.tenantKey(http, context));
    const { redirectUri, responseType } = browserLoginOf(tenant);
    const eventId = await this.getEvent(http, context, tenant);
    const returnTo = this.getReturnTo(http);
    const pending = startLogin({ tenant: tenant.key, redirectUri, responseType, eventId, returnTo });
    const url = await authorizationUrl(tenant, pending);
    await this.cookies.keep(http, pending);
    if (channels.login.hasSubscribers) {
      channels.login.publish({ tenant: tenant.key, outcome: 'started' });
    }
    http.redirect(url);
    // `true` would run the handler on an answered request, `false` would answer 403.
    return new Promise<never>(() => undefined);
  }

  protected async getEvent(
    http: HttpContext,
    context: ExecutionContext,
    tenant: Tenant,
  ): Promise<string | undefined> {
    const eventId = await this.resolver.eventId(http, context);
    if (eventId === undefined || Buffer.byteLength(eventId) <= MAX_EVENT_BYTES) {
      return eventId;
    }
    throw new ExhibitorError('invalid_argument', `eventId: must have at most ${MAX_EVENT_BYTES} bytes`, {
      tenant: tenant.key,
    });
  }

  protected getReturnTo(http: HttpContext): string | undefined {
    return safeReturnTo(http.request.query?.['returnTo']);
  }
}

/** A login started by an image or a script of another page would only disturb (Fetch Metadata). */
function requireNavigation(http: HttpContext): void {
  const destination = http.header('sec-fetch-dest');
  if (destination === undefined || destination === 'document' || destination === 'iframe') {
    return;
  }
  throw new ExhibitorError('invalid_argument', 'a login starts by navigating to this address');
}
