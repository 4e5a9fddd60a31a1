import { Controller, Get, Injectable, Redirect, UseGuards } from '@nestjs/common';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  type ExhibitorIdentity,
  type HttpContext,
} from 'nestjs-exhibitor';

/** A page for operators. A browser without a login goes to it. */
@Injectable()
export class OperatorGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, `/${http.request.params['tenant']}/auth/login`);
  }
}

@Controller(':tenant/auth')
export class AuthController {
  @Get('login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() { returnTo = '/' }: ExhibitorIdentity) {
    return { url: returnTo };
  }
}
