import { Catch, type ArgumentsHost } from '@nestjs/common';
import type { ExhibitorRequest } from 'nestjs-exhibitor';
import { ProblemFilter } from '../pages/problem.filter.js';
import { exhibitorErrorOf } from '../pages/problem.js';

/** Redirects a person with several exhibitors and no selection to the selection page, instead of a 409 page. */
@Catch()
export class ChooseExhibitorFilter extends ProblemFilter {
  override catch(thrown: unknown, host: ArgumentsHost): void {
    if (exhibitorErrorOf(thrown)?.code !== 'exhibitor_not_selected') {
      super.catch(thrown, host);
      return;
    }
    const { tenant = '', eventId = '' } = host.switchToHttp().getRequest<ExhibitorRequest>().params;
    const path = `/${tenant}/events/${encodeURIComponent(eventId)}/mine/choose`;
    this.adapter.redirect(host.switchToHttp().getResponse(), 303, path);
  }
}
