import type { ServerResponse } from 'node:http';
import type { ExecutionContext } from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import onHeaders from 'on-headers';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { isRecord } from '../model/json-values.js';

/** What {@link HttpContext} needs of Nest's HTTP adapter. */
export type ResponseAdapter = Pick<AbstractHttpAdapter, 'setHeader' | 'redirect' | 'reply'>;

/** A cookie that a reply sets. */
export interface ReplyCookie {
  /** Empty for one that is removed. */
  value: string;
  /** `Set-Cookie`. */
  header: string;
  /** True where the reply only extends a cookie that the browser has. Any other cookie of its name wins, and a 304 does not bring it. */
  isRenewed?: boolean | undefined;
}

/** Our cookies of a reply, by the name that is sent. By response, since several guards may answer one request. */
const replyCookies = new WeakMap<object, Map<string, ReplyCookie>>();

/** A request of the host and its response. Writes through Nest's HTTP adapter, so it works on Express and Fastify. */
export class HttpContext {
  readonly #adapter: ResponseAdapter;
  readonly #context: ExecutionContext | undefined;
  /** Absent in GraphQL without a response. */
  readonly #nodeResponse: ServerResponse | undefined;

  constructor(
    readonly request: ExhibitorRequest,
    readonly response: unknown,
    adapter: ResponseAdapter,
    context?: ExecutionContext,
  ) {
    this.#adapter = adapter;
    this.#context = context;
    this.#nodeResponse = nodeResponseOf(response);
  }

  /**
   * Nest's context of the route, in the steps of guards.
   *
   * @throws Error elsewhere: there is none
   */
  get context(): ExecutionContext {
    if (this.#context === undefined) {
      throw new Error('only the steps of a guard have the ExecutionContext of their route');
    }
    return this.#context;
  }

  /** False where the headers were sent, for example by a stream, and where a GraphQL context has no response. */
  get takesHeaders(): boolean {
    return this.response !== undefined && this.#nodeResponse?.headersSent !== true;
  }

  /** Sets a header, unless it is too late. */
  setHeader(name: string, value: string): void {
    if (this.takesHeaders) {
      this.#adapter.setHeader(this.response, name, value);
    }
  }

  /** A cookie of ours that the reply sets so far. */
  replyCookie(name: string): ReplyCookie | undefined {
    return replyCookies.get(this.#reply)?.get(name);
  }

  /**
   * Sets a cookie when the head of the reply is written, and keeps the reply out of caches. A later cookie of the same name replaces it,
   * unless the later one is only renewed.
   *
   * @throws {TypeError} where the response is not one of Node, so that no login or logout passes without its cookie
   */
  setCookie(name: string, cookie: ReplyCookie): void {
    const nodeResponse = this.#nodeResponse;
    if (this.response !== undefined && nodeResponse === undefined) {
      throw new TypeError('cookies need the response of Node, as Express and Fastify have it');
    }
    const cookies = replyCookies.get(this.#reply) ?? new Map<string, ReplyCookie>();
    if (cookie.isRenewed !== true || !cookies.has(name)) {
      cookies.set(name, cookie);
    }
    // One listener for each reply: on-headers nests them, so that thousands would overflow the stack.
    if (!replyCookies.has(this.#reply) && nodeResponse !== undefined) {
      onHeaders(nodeResponse, () => addCookies(nodeResponse, cookies));
    }
    replyCookies.set(this.#reply, cookies);
  }

  /** Names the reply among all. In GraphQL without a response by its request: no cookie is sent then. */
  get #reply(): object {
    return this.#nodeResponse ?? this.request;
  }

  /**
   * Redirects the browser, on Express and Fastify.
   *
   * @param status 303 lets the browser go on by GET after a POST
   */
  redirect(url: string, status: 302 | 303 = 302): void {
    this.#adapter.redirect(this.response, status, url);
  }

  /** Answers the request; an object as JSON. */
  reply(status: number, body?: object | string): void {
    // Fastify's reply is thenable: it must not be returned.
    void this.#adapter.reply(this.response, body, status);
  }

  /** A request header; several values are joined by a comma. */
  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** True for a form that no body parser of the host has read. */
  get isUnreadForm(): boolean {
    const { method, body } = this.request;
    const isForm = /^application\/x-www-form-urlencoded\b/i.test(this.header('content-type') ?? '');
    return method === 'POST' && isForm && (!isRecord(body) || Buffer.isBuffer(body));
  }

  /** Path and query as the client sent them. */
  get target(): URL {
    const { path } = this.#addressed;
    // One with a leading // must not be parsed as another host.
    return new URL(`http://localhost${path.startsWith('/') ? '' : '/'}${path}`);
  }

  /** Host and port that the client addresses, as it wrote them; HTTP/2 has them in `:authority` (RFC 9113 §8.3.1). */
  get authority(): string | undefined {
    return this.#addressed.authority ?? this.header(':authority') ?? this.header('host');
  }

  /** A target in absolute form names the host in place of `Host` (RFC 9112 §3.2.2). In mounted applications Express and middie shorten `url`. */
  get #addressed(): { authority?: string; path: string } {
    const target = this.request.originalUrl ?? this.request.url;
    const [origin = '', authority] = /^https?:\/\/([^/?#]*)/i.exec(target) ?? [];
    return { authority, path: target.slice(origin.length) };
  }
}

/** Node's response behind a response of Express or a reply of Fastify. That of HTTP/2 has the same methods. */
function nodeResponseOf(response: unknown): ServerResponse | undefined {
  const own: ServerResponse & { raw?: ServerResponse } = Object(response);
  return [own.raw, own].find((one) => typeof one?.writeHead === 'function');
}

/** Ends of the names of headers that caches obey in place of `Cache-Control` (RFC 9213 §2.2). */
const TARGETED = ['-cache-control', 'surrogate-control', 'edge-control', 'x-accel-expires'];

/** Adds our cookies to a reply whose head is being written. Those of the host stay. */
function addCookies(response: ServerResponse, cookies: ReadonlyMap<string, ReplyCookie>): void {
  const others = [response.getHeader('Set-Cookie') ?? []].flat().map(String);
  const added = [...cookies].filter(
    ([name, { isRenewed }]) =>
      isRenewed !== true ||
      // A cache may add the headers of a 304 to the reply that it has stored (RFC 9111 §4.3.4).
      (response.statusCode !== 304 && !others.some((other) => other.startsWith(`${name}=`))),
  );
  if (added.length > 0) {
    response.setHeader('Set-Cookie', [...others, ...added.map(([, { header }]) => header)]);
    makePrivate(response);
  }
}

/** A shared cache would hand the cookies of the reply to other users (RFC 9111 §7.3). */
function makePrivate(response: ServerResponse): void {
  if (response.getHeader('Cache-Control') !== 'no-store') {
    response.setHeader('Cache-Control', 'private, no-store');
  }
  response
    .getHeaderNames()
    .filter((name) => TARGETED.some((end) => name.endsWith(end)))
    .forEach((name) => response.removeHeader(name));
  const varied = [response.getHeader('Vary') ?? []].flat().join(', ');
  const names = varied
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  if (!names.includes('cookie') && !names.includes('*')) {
    response.setHeader('Vary', varied === '' ? 'Cookie' : `${varied}, Cookie`);
  }
}
