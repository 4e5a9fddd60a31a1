import type { AbstractHttpAdapter } from '@nestjs/core';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';

/** A request and its response, whatever the HTTP framework: everything goes through Nest's adapter. */
export class HttpContext {
  constructor(
    readonly request: ExhibitorRequest,
    readonly response: unknown,
    private readonly adapter: Pick<AbstractHttpAdapter, 'setHeader' | 'appendHeader' | 'redirect'>,
  ) {}

  setHeader(name: string, value: string): void {
    if (this.response !== undefined) {
      this.adapter.setHeader(this.response, name, value);
    }
  }

  /** Express' `setHeader` would replace the cookies a host has set. */
  addCookie(header: string): void {
    if (this.response !== undefined) {
      this.adapter.appendHeader(this.response, 'Set-Cookie', header);
    }
  }

  redirect(url: string): void {
    this.adapter.redirect(this.response, 302, url);
  }

  /** One value of a request header. */
  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** Path and query as the client sent them; Express and middie shorten `url` in mounted apps. */
  get target(): URL {
    const target = this.request.originalUrl ?? this.request.url;
    // An absolute or //-leading target must not be read as another host.
    return new URL(`http://localhost${target.startsWith('/') ? '' : '/'}${target}`);
  }
}
