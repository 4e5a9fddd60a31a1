import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { memberOf } from '../http/host-members.js';
import { extendRequests } from './request-memory.js';

/** Extends the requests of a host on Express before the first one arrives. */
@Injectable()
export class ExpressRequests implements OnModuleInit {
  readonly #adapterHost: HttpAdapterHost;

  constructor(@Inject(HttpAdapterHost) adapterHost: HttpAdapterHost) {
    this.#adapterHost = adapterHost;
  }

  onModuleInit(): void {
    // Without an HTTP server, as in createApplicationContext(), there is no adapter.
    const adapter: Partial<HttpAdapterHost['httpAdapter']> | undefined = this.#adapterHost.httpAdapter;
    const prototype =
      adapter?.getType?.() === 'express' ? memberOf(adapter.getInstance?.(), 'request') : undefined;
    if (typeof prototype === 'object' && prototype !== null) {
      extendRequests(prototype);
    }
  }
}
