import {
  Inject,
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { ExhibitorIdentity, ExhibitorRequest } from 'nestjs-exhibitor';
import { map, type Observable } from 'rxjs';
import { Portals } from '../portals.service.js';

/** The logged-in person as shown in the page header. */
export interface Person {
  name: string;
  email: string;
}

/** Adds to the result of a handler what all pages show: the portal, the event and the logged-in person. */
@Injectable()
export class PageInterceptor implements NestInterceptor {
  constructor(@Inject(Portals) private readonly portals: Portals) {}

  intercept(context: ExecutionContext, next: CallHandler<object>): Observable<object> {
    const { params, user } = context.switchToHttp().getRequest<RequestWithIdentity>();
    const { tenant, eventId } = params;
    const page = {
      portal: this.portals.portal(tenant),
      event: eventId === undefined ? undefined : this.portals.event(tenant, eventId),
      person: personOf(user),
    };
    return next.handle().pipe(map((result) => ({ ...page, ...result })));
  }
}

/** A request after a guard has run, which sets `user` if a person is logged in. */
export type RequestWithIdentity = ExhibitorRequest & { user?: ExhibitorIdentity };

/** The person of `request.user`, which a guard sets. `undefined` if nobody is logged in. */
export function personOf(user: unknown): Person | undefined {
  const { email, claims }: Partial<ExhibitorIdentity> = Object(user);
  if (email === undefined) {
    return undefined;
  }
  const name = claims?.['name'];
  return { name: typeof name === 'string' && name !== '' ? name : email, email };
}
