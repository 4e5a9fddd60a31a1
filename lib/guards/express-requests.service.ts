import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { callMember } from '../http/host-members.js';
import { addMembers } from './request-memory.js';

/** Prepares each request that arrives at a host on Express; see {@link addMembers}. */
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
