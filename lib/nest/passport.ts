import { ConfigurationError } from '../errors/configuration.error.js';
import type { HttpContext } from '../browser/http-context.js';

/**
 * Calls a method of Passport, which ends by callback, or of `@fastify/passport`, which returns a promise.
 *
 * @param instead method of a guard that hosts without Passport override
 */
export async function callPassport(
  { request }: HttpContext,
  name: 'logIn' | 'logOut',
  instead: string,
  ...values: unknown[]
): Promise<void> {
  const method: unknown = Object(request)[name];
  if (typeof method !== 'function') {
    const expected = `'host' needs request.${name} of Passport, or ${instead} of your own`;
    throw new ConfigurationError([{ path: 'session', expected }]);
  }
  await new Promise<void>((resolve, reject) => {
    const done = (error?: unknown): void =>
      error === undefined || error === null ? resolve() : reject(error);
    const result: unknown = method.call(request, ...values, done);
    if (result instanceof Promise) {
      result.then(() => resolve(), reject);
    }
  });
}
