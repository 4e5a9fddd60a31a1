import { Controller, Get, Post, Query, Redirect, Req, Res, UseGuards } from '@nestjs/common';
import type { Response } from 'express';
import {
  AllowAnonymous,
  CurrentIdentity,
  ExhibitorIdentityGuard,
  ExhibitorLogoutGuard,
  type ExhibitorIdentity,
} from 'nestjs-exhibitor';
import { CallbackGuard } from './callback.guard.js';
import { LoginGuard } from './login.guard.js';
import { personOf, type RequestWithIdentity } from './pages/person.interceptor.js';
import { describeLoginProblem } from './pages/problem.js';

/** Routes of the login and the logout. */
@Controller('auth')
export class AuthController {
  /** The guard redirects to the identity provider. This handler never runs. */
  @Get('login')
  @UseGuards(LoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(CallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  /** For response types that use `response_mode=form_post`. */
  @Post('callback')
  @UseGuards(CallbackGuard)
  @Redirect('/', 303)
  postedCallback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  /** Where {@link CallbackGuard} leads. A person who goes back to a finished login is still logged in. */
  @Get('problem')
  @AllowAnonymous()
  @UseGuards(ExhibitorIdentityGuard)
  problem(
    @Req() request: RequestWithIdentity,
    @Res() response: Response,
    @Query('problem') name?: unknown,
    @Query('eventId') eventId?: unknown,
    @Query('returnTo') returnTo?: unknown,
  ): void {
    const person = personOf(request);
    const problem = describeLoginProblem(name, person !== undefined);
    response
      .status(problem.status)
      .render('problem', { ...problem, person, loginPath: loginPath(eventId, returnTo) });
  }

  /**
   * POST only, so that a link or an image on another site cannot log a person out. The guard redirects to the provider, which
   * ends its session too and redirects to the start page.
   */
  @Post('logout')
  @UseGuards(ExhibitorLogoutGuard)
  @Redirect('/', 303)
  logout(): void {}
}

/** A new login for the same event and page. The login guard drops a `returnTo` that is not a path of this site. */
function loginPath(eventId: unknown, returnTo: unknown): string {
  const query = new URLSearchParams({
    ...(typeof eventId === 'string' ? { eventId } : {}),
    ...(typeof returnTo === 'string' ? { returnTo } : {}),
  });
  return `/auth/login?${query}`;
}
