import { Controller, Get, Post, Redirect, UseGuards } from '@nestjs/common';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  type ExhibitorIdentity,
} from 'nestjs-exhibitor';

/** Routes of the login and the logout. */
@Controller('auth')
export class AuthController {
  /** The guard redirects to the identity provider. This handler never runs. */
  @Get('login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  /** For response types that use `response_mode=form_post`. */
  @Post('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  postedCallback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  /** POST only, so that a link or an image on another site cannot log a person out. */
  @Post('logout')
  @UseGuards(ExhibitorLogoutGuard)
  @Redirect('/', 303)
  logout(): void {}
}
