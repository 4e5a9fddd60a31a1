import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { callMember } from '../http/host-members.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { memoryOf } from './request-memory.js';

/**
 * Adds to each request of a host on Express the members that {@link ExhibitorGuard} sets, without values, before Express has it.
 * Express changes the prototype of each request. Up to Node 22, V8 then makes a hidden class for this request alone, and
 * another for every member that is added, which takes 2 µs.
 */
@Injectable()
export class ExpressRequests implements OnModuleInit {
  readonly #adapterHost: HttpAdapterHost;

  constructor(@Inject(HttpAdapterHost) adapterHost: HttpAdapterHost) {
    this.#adapterHost = adapterHost;
  }

  onModuleInit(): void {
    const { httpAdapter } = this.#adapterHost;
    if (callMember(httpAdapter, 'getType') === 'express') {
      callMember(callMember(httpAdapter, 'getHttpServer'), 'prependListener', 'request', addMembers);
    }
  }
}

function addMembers(request: ExhibitorRequest): void {
  memoryOf(request);
  // A server of the host may have set them already.
  request.exhibitors ??= undefined;
  request.exhibitorContext ??= undefined;
}
