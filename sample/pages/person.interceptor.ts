import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { personOf } from './person.js';

/** Tells the layout of a page who is logged in. */
@Injectable()
export class PersonInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const response = context.switchToHttp().getResponse<Response>();
    response.locals['person'] = personOf(context.switchToHttp().getRequest());
    return next.handle();
  }
}
