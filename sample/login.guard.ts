import { Injectable } from '@nestjs/common';
import { ExhibitorLoginGuard, type HttpContext, type LoginParameters } from 'nestjs-exhibitor';

/** Starts a login. With `?switch`, the provider asks who logs in, although it may have a session. */
@Injectable()
export class LoginGuard extends ExhibitorLoginGuard {
  protected override getLoginParameters({ request }: HttpContext): LoginParameters {
    return request.query['switch'] === undefined ? {} : { prompt: 'login' };
  }
}
