import type { AbstractHttpAdapter } from '@nestjs/core';
import { callMember, memberOf } from '../http/host-members.js';

/** Whether a host serves a path by a method. */
export type IsServed = (method: 'GET' | 'POST', path: string) => boolean;

/**
 * Observes the routes of an HTTP adapter. To be called before they are registered, since Fastify tells of a route only then.
 * What it answers is called afterwards; `undefined` where the routes cannot be known.
 */
export function observeRoutes(adapter: AbstractHttpAdapter | undefined): () => IsServed | undefined {
  const app: unknown = adapter?.getInstance?.();
  switch (adapter?.getType?.()) {
    case 'express':
      return () => expressRoutes(app);
    case 'fastify':
      return fastifyRoutes(app);
    default:
      return () => undefined;
  }
}

/** The layers of Express 5: `{ match(path), route: { methods } }`. */
function expressRoutes(app: unknown): IsServed | undefined {
  const layers = memberOf(memberOf(app, 'router'), 'stack');
  // An application inside another one does not know its whole path.
  if (!Array.isArray(layers) || memberOf(app, 'parent') !== undefined) {
    return undefined;
  }
  return (method, path) =>
    layers.some((layer: unknown) => {
      const methods = memberOf(memberOf(layer, 'route'), 'methods');
      const isMethod = memberOf(methods, method.toLowerCase()) === true || memberOf(methods, '_all') === true;
      // True or false, or in newer versions of its router the parameters, if it fits.
      return isMethod && Boolean(callMember(layer, 'match', path));
    });
}

function fastifyRoutes(app: unknown): () => IsServed | undefined {
  const routes: { methods: readonly unknown[]; pattern: string }[] = [];
  const observe = (route: unknown): void => {
    const [method, url] = [memberOf(route, 'method'), memberOf(route, 'url')];
    if (typeof url === 'string') {
      routes.push({ methods: Array.isArray(method) ? method : [method], pattern: url });
    }
  };
  callMember(app, 'addHook', 'onRoute', observe);
  return () => {
    // The application was created after the module, as in a testing module.
    if (routes.length === 0) {
      return undefined;
    }
    return (method, path) =>
      routes.some(({ methods, pattern }) => methods.includes(method) && fitsPattern(path, pattern));
  };
}

/** Compares a path with a pattern of Fastify, part by part: `:name` is any part, `*` all that follow. */
function fitsPattern(path: string, pattern: string): boolean {
  const parts = path.split('/');
  const expected = pattern.split('/');
  const rest = expected.findIndex((part) => part.includes('*'));
  const length = rest === -1 ? expected.length : rest;
  return (
    (rest === -1 ? parts.length === length : parts.length > length) &&
    expected.slice(0, length).every((part, index) => part.includes(':') || part === parts[index])
  );
}
