import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { afterAll } from '@jest/globals';
import type { JWK } from 'jose';
import { ExhibitorSandbox, type SandboxOptions } from '../../lib/development/testing/index.js';
import { pemOf } from './keys.js';

/** Starts a sandbox that signs with a key of the tests instead of a new one. */
export function startSandbox(options: SandboxOptions = {}): Promise<ExhibitorSandbox> {
  return ExhibitorSandbox.start({ signingKey: pemOf('sandbox'), ...options });
}

/** Connections that servers of this process have accepted and that are open, idle ones included. */
const connections = new Set<Socket>();
const add = (message: unknown): void => {
  const { socket } = message as { socket: Socket };
  connections.add(socket);
  socket.once('close', () => connections.delete(socket));
};
subscribe('net.server.socket', add);
afterAll(() => void unsubscribe('net.server.socket', add));

export function openConnections({ url }: ExhibitorSandbox): number {
  return [...connections].filter(({ localPort }) => String(localPort) === new URL(url).port).length;
}

/** Number of requests that have not ended. */
export function openRequests({ requests }: Pick<ExhibitorSandbox, 'requests'>): number {
  return requests.filter(({ status, aborted }) => status === undefined && !aborted).length;
}

/** The public keys of the provider of a sandbox. */
export function jwksOf(sandbox: ExhibitorSandbox): { keys: JWK[] } {
  const { keys } = sandbox.tenantOptions(sandbox.tenants[0]?.key ?? '').login;
  if (typeof keys === 'string') {
    throw new Error('expected a JWKS');
  }
  return keys;
}

/** The same as PEM (SPKI). */
export function publicPemOf(sandbox: ExhibitorSandbox): string {
  return String(sandbox.tenantOptions(sandbox.tenants[0]?.key ?? '', { keys: 'pem' }).login.keys);
}
