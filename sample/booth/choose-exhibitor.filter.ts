import { Catch, type ArgumentsHost } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ProblemFilter } from '../pages/problem.filter.js';
import { exhibitorErrorOf } from '../pages/problem.js';

/** Redirects a person with several exhibitors and no selection to the selection page, instead of a 409 page. */
@Catch()
export class ChooseExhibitorFilter extends ProblemFilter {
  override catch(thrown: unknown, host: ArgumentsHost): void {
    if (exhibitorErrorOf(thrown)?.code !== 'exhibitor_not_selected') {
      this.show(thrown, host);
      return;
    }
    const request = host.switchToHttp().getRequest<Request<{ eventId: string }>>();
    const response = host.switchToHttp().getResponse<Response>();
    response.redirect(303, `/events/${encodeURIComponent(request.params.eventId)}/mine/choose`);
  }
}
