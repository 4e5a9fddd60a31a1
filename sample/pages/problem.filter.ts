import { Catch, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { personOf, type RequestWithIdentity } from './person.interceptor.js';
import { describeProblem, exhibitorErrorOf } from './problem.js';

/** Shows errors as pages of the portal. Details are logged and never shown. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger('Portal');

  catch(thrown: unknown, host: ArgumentsHost): void {
    this.show(thrown, host);
  }

  protected show(thrown: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request & RequestWithIdentity>();
    const response = host.switchToHttp().getResponse<Response>();
    const problem = describeProblem(thrown);
    if (problem.status >= 500) {
      this.log(thrown);
    }
    if (response.headersSent) {
      response.end();
      return;
    }
    response.status(problem.status);
    if (!response.hasHeader('Cache-Control')) {
      response.setHeader('Cache-Control', 'private, no-store');
    }
    const { title, text } = problem;
    if (!request.accepts('html')) {
      response.json({ statusCode: problem.status, title, text });
      return;
    }
    const retryPath = retryPathOf(request);
    const loginPath = `/auth/login?returnTo=${encodeURIComponent(retryPath)}`;
    response.render('problem', { ...problem, person: personOf(request), retryPath, loginPath });
  }

  private log(thrown: unknown): void {
    const error = exhibitorErrorOf(thrown);
    if (error) {
      this.logger.warn(error.toJSON());
    } else {
      this.logger.error(thrown);
    }
  }
}

/** Path of the retry link: the requested page. A form is not posted again: the link leads to the page that contains it. */
function retryPathOf(request: Request): string {
  if (request.path.startsWith('/auth/')) {
    return '/';
  }
  const path = request.method === 'GET' ? request.originalUrl : request.path.replace(/\/[^/]*$/, '');
  // A path that starts with two slashes would be a link to another host.
  return path.replace(/^\/*/, '/');
}
