import { Controller, Get, Query, Render, Req, Res, UseGuards, UseInterceptors } from '@nestjs/common';
import { AllowAnonymous, ExhibitorIdentityGuard } from 'nestjs-exhibitor';
import { PageInterceptor, type RequestWithIdentity } from './page.interceptor.js';
import { describeLoginProblem } from './problem.js';

/** The page to which `CallbackGuard` leads. A person who goes back to a finished login is still logged in. */
@Controller(':tenant/auth/problem')
@AllowAnonymous()
@UseGuards(ExhibitorIdentityGuard)
@UseInterceptors(PageInterceptor)
export class LoginProblemController {
  @Get()
  @Render('problem')
  problem(
    @Req() { user, params }: RequestWithIdentity,
    @Res({ passthrough: true }) response: { status(code: number): unknown },
    @Query() query: Record<string, unknown>,
  ) {
    const problem = describeLoginProblem(query['problem'], user !== undefined);
    response.status(problem.status);
    const path = `/${params['tenant']}`;
    // The login that was finished before: its return address was used, its event is that of the identity.
    const { eventId = user?.eventId, returnTo } = query;
    const booth = typeof eventId === 'string' ? `${path}/events/${encodeURIComponent(eventId)}/mine` : path;
    return { ...problem, loginPath: loginPath(path, eventId, returnTo ?? booth), retryPath: booth };
  }
}

/** A new login for the same event and page. The login guard drops a `returnTo` that is not a path of this site. */
function loginPath(path: string, eventId: unknown, returnTo: unknown): string {
  const query = new URLSearchParams({
    ...(typeof eventId === 'string' ? { eventId } : {}),
    ...(typeof returnTo === 'string' ? { returnTo } : {}),
  });
  return `${path}/auth/login?${query}`;
}
