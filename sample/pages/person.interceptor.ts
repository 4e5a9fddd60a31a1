import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { Response } from 'express';
import type { ExhibitorIdentity } from 'nestjs-exhibitor';
import type { Observable } from 'rxjs';

/** A request after an identity guard has run, which sets `user` if a person is logged in. */
export interface RequestWithIdentity {
  user?: ExhibitorIdentity;
}

/** The logged-in person as shown in the page header. */
export interface Person {
  name: string;
  email: string;
}

/** Makes the logged-in person available to the page layout. */
@Injectable()
export class PersonInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    http.getResponse<Response>().locals['person'] = personOf(http.getRequest<RequestWithIdentity>());
    return next.handle();
  }
}

/** The person of a request. `undefined` if nobody is logged in. */
export function personOf({ user }: RequestWithIdentity): Person | undefined {
  if (!user) {
    return undefined;
  }
  const { email, claims } = user;
  const { name } = claims;
  return { name: typeof name === 'string' && name !== '' ? name : email, email };
}
