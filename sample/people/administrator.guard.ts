import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { RequestWithIdentity } from '../pages/page.interceptor.js';
import { People } from './people.js';

/** Lets administrators pass. It stands after `ExhibitorIdentityGuard`, which sets `request.user`. */
@Injectable()
export class AdministratorGuard implements CanActivate {
  constructor(@Inject(People) private readonly people: People) {}

  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<RequestWithIdentity>();
    return this.people.isAdministrator(user);
  }
}
