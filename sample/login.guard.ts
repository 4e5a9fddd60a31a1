import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorLoginGuard, type ExhibitorRequest, type LoginParameters } from 'nestjs-exhibitor';

/** Starts a login. With `?switch`, the provider asks who logs in, although it may have a session. */
@Injectable()
export class LoginGuard extends ExhibitorLoginGuard {
  protected override getLoginParameters(context: ExecutionContext): LoginParameters {
    const { query } = context.switchToHttp().getRequest<ExhibitorRequest>();
    return query['switch'] === undefined ? {} : { prompt: 'login' };
  }
}
