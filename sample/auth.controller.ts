import { Controller, Get, Post, Redirect, UseGuards } from '@nestjs/common';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  type ExhibitorIdentity,
} from 'nestjs-exhibitor';

@Controller('auth')
export class AuthController {
  /** The guard redirects to the identity provider: this handler never runs. */
  @Get('login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  /** For providers that answer by `form_post`. */
  @Post('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  postedCallback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  /** POST only: a link or an image on another site must not log anybody out. */
  @Post('logout')
  @UseGuards(ExhibitorLogoutGuard)
  @Redirect('/', 303)
  logout(): void {}
}
