import type { ServerResponse } from 'node:http';
import type { ExecutionContext } from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import onHeaders from 'on-headers';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { isRecord } from '../model/json-values.js';

/** What {@link HttpContext} needs of Nest's HTTP adapter. */
export type ResponseAdapter = Pick<AbstractHttpAdapter, 'setHeader' | 'appendHeader' | 'redirect' | 'reply'>;

/** By request: several guards may answer one. */
const cookieChanges = new WeakMap<object, Map<string, string | undefined>>();

/** A request of the host and its response. Writes through Nest's HTTP adapter, so it works on Express and Fastify. */
export class HttpContext {
  readonly #adapter: ResponseAdapter;

  constructor(
    readonly request: ExhibitorRequest,
    readonly response: unknown,
    adapter: ResponseAdapter,
    /** Nest's context of the route, in guards. */
    readonly context?: ExecutionContext,
  ) {
    this.#adapter = adapter;
  }

  /** Cookies that the reply sets, by the name that is sent; `undefined` for one that it removes. */
  get cookieChanges(): ReadonlyMap<string, string | undefined> | undefined {
    return cookieChanges.get(this.request);
  }

  /** False where the headers were sent, for example by a stream, and where a GraphQL context has no response. */
  get takesHeaders(): boolean {
    return this.response !== undefined && nodeResponseOf(this.response)?.headersSent !== true;
  }

  /** Sets a header, unless it is too late. */
  setHeader(name: string, value: string): void {
    if (this.takesHeaders) {
      this.#adapter.setHeader(this.response, name, value);
    }
  }

  /**
   * Adds a `Set-Cookie` header, and keeps the reply out of shared caches. Express' `setHeader` would replace the cookies that
   * the host has set.
   *
   * @param value `undefined` for a cookie that is removed
   */
  addCookie(header: string, name: string, value: string | undefined): void {
    const changes = cookieChanges.get(this.request) ?? new Map();
    cookieChanges.set(this.request, changes.set(name, value));
    if (this.response !== undefined) {
      this.#adapter.appendHeader(this.response, 'Set-Cookie', header);
      keepPrivate(this.response);
    }
  }

  /**
   * Adds a `Set-Cookie` header when the head of the reply is written, unless it was written before.
   *
   * @param isWanted asked then, given the `Set-Cookie` headers that the reply has
   */
  addCookieWithHead(header: string, isWanted: (others: readonly string[]) => boolean): void {
    if (this.takesHeaders) {
      addCookieWithHead(this.response, header, isWanted);
    }
  }

  /**
   * Redirects the browser, on Express and Fastify.
   *
   * @param status 303 lets the browser go on by GET after a POST
   */
  redirect(url: string, status: 302 | 303 = 302): void {
    this.#adapter.redirect(this.response, status, url);
  }

  /** Answers the request; `body` as JSON. */
  reply(status: number, body?: object): void {
    // Fastify's reply is thenable: it must not be returned.
    void this.#adapter.reply(this.response, body, status);
  }

  /** A request header; several values are joined by a comma. */
  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** Path and query as the client sent them. In mounted applications Express and middie shorten `url`. */
  get target(): URL {
    const target = this.request.originalUrl ?? this.request.url;
    // An absolute target, or one with a leading //, must not be parsed as another host.
    return new URL(`http://localhost${target.startsWith('/') ? '' : '/'}${target}`);
  }
}

/** Node's response behind a response of Express or a reply of Fastify. That of HTTP/2 has the same methods. */
function nodeResponseOf(response: unknown): ServerResponse | undefined {
  return [isRecord(response) ? response['raw'] : undefined, response].find(isNodeResponse);
}

function isNodeResponse(value: unknown): value is ServerResponse {
  return isRecord(value) && typeof value['writeHead'] === 'function';
}

/** Ends of the names of headers that caches obey in place of `Cache-Control` (RFC 9213 §2.2). */
const TARGETED = ['-cache-control', 'surrogate-control', 'edge-control', 'x-accel-expires'];

/** Replies that are kept out of caches. Each listener of a head calls the one before, so that thousands would overflow the stack. */
const keptPrivate = new WeakSet<ServerResponse>();

/** Keeps a reply out of every cache when its head is written, so that it counts whatever the handler and a CDN's headers say. */
function keepPrivate(reply: unknown): void {
  const response = nodeResponseOf(reply);
  if (response !== undefined && !keptPrivate.has(response)) {
    keptPrivate.add(response);
    onHeaders(response, () => makePrivate(response));
  }
}

/** Adds a cookie to a reply when its head is written, if it is wanted then. The reply is kept private with it. */
function addCookieWithHead(
  reply: unknown,
  cookie: string,
  isWanted: (others: readonly string[]) => boolean,
): void {
  const response = nodeResponseOf(reply);
  if (response === undefined) {
    return;
  }
  onHeaders(response, () => {
    const others = [response.getHeader('Set-Cookie') ?? []].flat().map(String);
    // A cache may add the headers of a 304 to the reply that it has stored (RFC 9111 §4.3.4).
    if (response.statusCode !== 304 && isWanted(others)) {
      response.setHeader('Set-Cookie', [...others, cookie]);
      makePrivate(response);
    }
  });
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
