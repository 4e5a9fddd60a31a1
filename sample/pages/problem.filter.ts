import { Catch, Inject, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ExhibitorExceptionFilter, isExhibitorError } from 'nestjs-exhibitor';
import { Portals } from '../portals.service.js';
import { personOf, type RequestWithIdentity } from './page.interceptor.js';
import { describeProblem } from './problem.js';

/** Shows errors of the portal as its pages, and leaves those of the module to the module. Details are logged and never shown. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger('Portal');

  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(Portals) private readonly portals: Portals,
    @Inject(ExhibitorExceptionFilter) private readonly exhibitorFilter: ExhibitorExceptionFilter,
  ) {}

  catch(error: Error, host: ArgumentsHost): unknown {
    // Services throw an `ExhibitorError`; guards an `HttpException` with it as `cause`.
    if (isExhibitorError(error) || isExhibitorError(error?.cause)) {
      return this.exhibitorFilter.catch(error, host);
    }
    const adapter = this.adapterHost.httpAdapter;
    const request = host.switchToHttp().getRequest<RequestWithIdentity>();
    const response = host.switchToHttp().getResponse<object>();
    const problem = describeProblem(error);
    if (problem.status >= 500) {
      this.logger.error(error);
    }
    if (adapter.isHeadersSent(response)) {
      return adapter.end(response);
    }
    adapter.setHeader(response, 'Cache-Control', 'private, no-store');
    adapter.status(response, problem.status);
    if (String(request.headers['accept']).includes('text/html')) {
      return adapter.render(response, 'problem', { ...problem, ...this.pageOf(request) });
    }
    const { status, title, text } = problem;
    return adapter.reply(response, { statusCode: status, title, text }, status);
  }

  private pageOf({ originalUrl = '/', user }: RequestWithIdentity) {
    const [, tenant] = originalUrl.split('/');
    const portal = this.portals.all.find((candidate) => candidate.tenant === tenant) ?? this.portals.all[0];
    return { portal, person: personOf(user) };
  }
}
