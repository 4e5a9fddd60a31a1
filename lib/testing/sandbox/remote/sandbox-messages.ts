import type { MessagePort } from 'node:worker_threads';
import type { SandboxOptions } from '../exhibitor-sandbox.js';

/** What the thread of a sandbox is started with. */
export interface WorkerSetup {
  options: SandboxOptions;
  /** Carries synchronous calls and their results. */
  port: MessagePort;
  /** One number: 1 once the result of a synchronous call is on the port. */
  answered: Int32Array;
}

/** Reads a member, writes one, or calls a method. */
export interface SandboxCall {
  kind: 'get' | 'set' | 'call';
  name: string;
  args: unknown[];
}

/** A value, or an error as plain data: an `Error` of another thread or `vm` context is none here. */
export type SandboxResult = { value: unknown } | { error: { name: string; message: string } };

export function toFailure(error: unknown): SandboxResult {
  return error instanceof Error
    ? { error: { name: error.name, message: error.message } }
    : { error: { name: 'Error', message: String(error) } };
}

/** The value, made of objects of this realm. Jest runs tests in a realm of their own, where `toStrictEqual` compares prototypes. */
export function valueOf(result: SandboxResult): unknown {
  if ('value' in result) {
    return revive(result.value);
  }
  const { name, message } = result.error;
  throw name === 'RangeError' ? new RangeError(message) : new Error(message);
}

function revive(value: unknown): unknown {
  if (Array.isArray(value)) {
    return Array.from(value, revive);
  }
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, revive(inner)]));
}
