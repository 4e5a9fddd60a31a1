import type { HttpContext, PageView } from 'nestjs-exhibitor';
import type { SampleOptions } from '../sample-options.js';
import { personOf } from './page.interceptor.js';
import type { Views } from './views.js';

/** The pages of the module in the layout of the portal: failed logins, refusals, and the choice of an exhibitor. */
export class ModulePages {
  constructor(
    private readonly options: SampleOptions,
    private readonly views: Views,
  ) {}

  render(page: PageView, { request }: HttpContext): string {
    const { method, originalUrl = '/', user } = request;
    const [, tenant] = originalUrl.split('/');
    const { portals } = this.options;
    const portal = portals.find((one) => one.tenant === tenant) ?? portals[0];
    // The service may work again in a moment. A failed login has to start again.
    const isPassing = page.status > 500 && method === 'GET' && !originalUrl.includes('/auth/failed');
    return this.views.render(page.kind === 'choose' ? 'choose' : 'problem', {
      ...page,
      portal,
      event: portal?.events.find(({ id }) => id === page.form?.fields['eventId']),
      person: personOf(user),
      retryUrl: isPassing ? originalUrl : undefined,
    });
  }
}
