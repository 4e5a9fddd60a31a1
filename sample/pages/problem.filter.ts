import { Catch, Inject, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Portals } from '../portals.service.js';
import { personOf, type RequestWithIdentity } from './page.interceptor.js';
import { describeProblem, exhibitorErrorOf, type Problem } from './problem.js';

/** Shows errors as pages of the portal. Details are logged and never shown. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger('Portal');

  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(Portals) private readonly portals: Portals,
  ) {}

  /** Of Express or Fastify. */
  protected get adapter() {
    return this.adapterHost.httpAdapter;
  }

  catch(thrown: unknown, host: ArgumentsHost): void {
    const { adapter } = this;
    const request = host.switchToHttp().getRequest<RequestWithIdentity>();
    const response = host.switchToHttp().getResponse<object>();
    const problem = describeProblem(thrown);
    this.log(problem, thrown);
    if (adapter.isHeadersSent(response)) {
      adapter.end(response);
      return;
    }
    adapter.setHeader(response, 'Cache-Control', 'private, no-store');
    adapter.status(response, problem.status);
    if (String(request.headers['accept']).includes('text/html')) {
      adapter.render(response, 'problem', { ...problem, ...this.pageOf(request) });
    } else {
      const { status, title, text } = problem;
      adapter.reply(response, { statusCode: status, title, text }, status);
    }
  }

  private pageOf(request: RequestWithIdentity) {
    const retryPath = retryPathOf(request);
    const [, tenant] = retryPath.split('/');
    const portal = this.portals.all.find((candidate) => candidate.tenant === tenant) ?? this.portals.all[0];
    const eventId = request.params?.['eventId'];
    const query = new URLSearchParams({ ...(eventId === undefined ? {} : { eventId }), returnTo: retryPath });
    const loginPath = `/${portal?.tenant}/auth/login?${query}`;
    return { portal, person: personOf(request.user), retryPath, loginPath };
  }

  private log({ status }: Problem, thrown: unknown): void {
    const error = exhibitorErrorOf(thrown);
    if (error && status >= 500) {
      this.logger.warn(error.toJSON());
    } else if (status >= 500) {
      this.logger.error(thrown);
    }
  }
}

/** Path of the retry link: the requested page. A form is not posted again: the link leads to the page that contains it. */
function retryPathOf({ method, originalUrl = '/' }: RequestWithIdentity): string {
  const [portalOfLogin] = /^\/[^/]+(?=\/auth\/)/.exec(originalUrl) ?? [];
  const path = method === 'GET' ? originalUrl : originalUrl.replace(/\/[^/]*$/, '');
  // A path that starts with two slashes would be a link to another host.
  return portalOfLogin ?? path.replace(/^\/*/, '/');
}
