/** Members of objects that belong to the host or its framework, and have no type here. */

/** A member of an object or a function; `undefined` where there is none, or the value is neither. */
export function memberOf(value: unknown, name: string): unknown {
  const members: Record<string, unknown> = Object(value);
  return members[name];
}

/** Calls a method and answers its result; `undefined` where the target has no such method. */
export function callMember(target: unknown, name: string, ...values: unknown[]): unknown {
  const method = memberOf(target, name);
  return typeof method === 'function' ? method.call(target, ...values) : undefined;
}

/**
 * Calls a method that ends by callback or by promise, as those of sessions do. Answers false where the target has no such
 * method.
 */
export async function callToEnd(target: unknown, name: string, ...values: unknown[]): Promise<boolean> {
  if (typeof memberOf(target, name) !== 'function') {
    return false;
  }
  await new Promise<void>((resolve, reject) => {
    const done = (error?: unknown): void =>
      error === undefined || error === null ? resolve() : reject(error);
    const result = callMember(target, name, ...values, done);
    if (result instanceof Promise) {
      result.then(() => resolve(), reject);
    }
  });
  return true;
}
