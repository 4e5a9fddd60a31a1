import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { ExhibitorRequest } from 'nestjs-exhibitor';
import { Portals } from '../portals.service.js';

/** Answers 404 for a tenant or an event that the host does not have, before anybody is asked to log in for it. */
@Injectable()
export class KnownEventGuard implements CanActivate {
  constructor(@Inject(Portals) private readonly portals: Portals) {}

  canActivate(context: ExecutionContext): boolean {
    const { params, query } = context.switchToHttp().getRequest<ExhibitorRequest>();
    const { tenant, eventId = query['eventId'] } = params;
    if (tenant !== undefined && eventId !== undefined) {
      this.portals.event(tenant, String(eventId));
    } else if (tenant !== undefined) {
      this.portals.portal(tenant);
    }
    return true;
  }
}
