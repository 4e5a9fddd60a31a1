import type { HttpContext, PageView } from 'nestjs-exhibitor';
import type { SampleOptions } from '../sample-options.js';
import { personOf } from './page.interceptor.js';
import type { Views } from './views.js';

/** The pages of the module in the layout of the portal: failed logins, refusals, and the choice of an exhibitor. */
export class LoginPages {
  constructor(
    private readonly options: SampleOptions,
    private readonly views: Views,
  ) {}

  render(page: PageView, http: HttpContext): string {
    const { method, originalUrl, params, user } = http.request;
    const { portals } = this.options;
    const portal = portals.find(({ tenant }) => tenant === params['tenant']) ?? portals[0];
    const eventId = page.form?.fields['eventId'];
    // The service may work again in a moment. A failed login has to start again.
    const isPassing = page.status >= 500 && page.status !== 500 && method === 'GET';
    return this.views.render(page.kind === 'choose' ? 'choose' : 'problem', {
      ...page,
      portal,
      event: portal?.events.find(({ id }) => id === eventId),
      person: personOf(user),
      retryUrl: isPassing && !originalUrl?.includes('/auth/failed') ? originalUrl : undefined,
    });
  }
}
