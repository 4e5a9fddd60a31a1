import { Catch, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { personOf } from './person.js';
import { describeProblem, exhibitorErrorOf } from './problem.js';

/** Shows every failure as a page of the portal; what it was goes to the log, never to the page. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger('Portal');

  catch(thrown: unknown, host: ArgumentsHost): void {
    this.show(thrown, host);
  }

  protected show(thrown: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request & { user?: unknown }>();
    const response = host.switchToHttp().getResponse<Response>();
    const problem = describeProblem(thrown);
    if (problem.status >= 500) {
      this.note(thrown);
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
    response.render('problem', { ...problem, person: personOf(request), back: pathToReturnTo(request) });
  }

  private note(thrown: unknown): void {
    const error = exhibitorErrorOf(thrown);
    if (error) {
      this.logger.warn(error.toJSON());
    } else {
      this.logger.error(thrown);
    }
  }
}

/** Trying again repeats a page that was looked at. A form is not sent twice: its page is shown again instead. */
function pathToReturnTo(request: Request): string {
  if (request.path.startsWith('/auth/')) {
    return '/';
  }
  const path = request.method === 'GET' ? request.originalUrl : request.path.replace(/\/[^/]*$/, '');
  // Two slashes at the start would make a link to another host of it.
  return path.replace(/^\/*/, '/');
}
