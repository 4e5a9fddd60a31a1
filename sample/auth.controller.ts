import { Controller, Get, Inject, Param, Post, Redirect, UseGuards } from '@nestjs/common';
import { CurrentIdentity, ExhibitorLogoutGuard, type ExhibitorIdentity } from 'nestjs-exhibitor';
import { CallbackGuard } from './callback.guard.js';
import { LoginGuard } from './login.guard.js';
import { People } from './people/people.js';

/** Routes of the login and the logout. */
@Controller(':tenant/auth')
export class AuthController {
  constructor(@Inject(People) private readonly people: People) {}

  /** The guard redirects to the identity provider. This handler never runs. */
  @Get('login')
  @UseGuards(LoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(CallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity) {
    this.people.remember(identity);
    return { url: identity.returnTo ?? `/${identity.tenant}` };
  }

  /** For response types that use `response_mode=form_post`. */
  @Post('callback')
  @UseGuards(CallbackGuard)
  @Redirect('/', 303)
  postedCallback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return this.callback(identity);
  }

  /**
   * POST only, so that a link or an image on another site cannot log a person out. The guard redirects to the provider, which
   * ends its session too and redirects to the start page.
   */
  @Post('logout')
  @UseGuards(ExhibitorLogoutGuard)
  @Redirect('/', 303)
  logout(@Param('tenant') tenant: string) {
    return { url: `/${encodeURIComponent(tenant)}` };
  }
}
