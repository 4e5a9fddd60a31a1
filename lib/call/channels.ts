import { channel } from 'node:diagnostics_channel';
import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import type { LoginFailureReason } from '../errors/login-failed.error.js';

/**
 * Message of `nestjs-exhibitor:token`: one per answer of the token cache, and one per renewal behind it (`renewed-early`, also after a 403;
 * `shared`; `failed`).
 */
export interface TokenMessage {
  tenant: string;
  outcome: 'hit' | 'renewed-early' | 'fetched' | 'forced' | 'shared' | 'failed';
  code?: ExhibitorErrorCode;
}

/** Message of `nestjs-exhibitor:request`: one per attempt on the wire. */
export interface RequestMessage {
  tenant: string;
  operation: string;
  /** Path with the names of its parameters, without values: `/api/v1/exhibitor/event/{eventId}`. */
  template: string;
  method: 'GET' | 'POST';
  /** Of the service or the provider: `https://api.example.com`. */
  origin: string;
  status?: number;
  durationMs: number;
  attempt: number;
  code?: ExhibitorErrorCode;
  /** What failed where there is no `status`: `attemptTimeout`, the connection, or an interceptor of the host. */
  cause?: 'timeout' | 'network' | 'interceptor';
}

/** Message of `nestjs-exhibitor:lookup`: one per lookup. */
export interface LookupMessage {
  tenant: string;
  outcome: 'hit' | 'miss' | 'stale';
}

/** Message of `nestjs-exhibitor:login`: one per step of a login. */
export interface LoginMessage {
  tenant?: string;
  outcome: 'started' | 'succeeded' | 'failed';
  reason?: LoginFailureReason;
}

/**
 * Message of `nestjs-exhibitor:store`: one per token or ended login that is looked for in the shared store (`hit`, `miss`), per token
 * that another process requested meanwhile (`waited`), and per operation that failed or was left out while the store rests (`failed`).
 */
export interface StoreMessage {
  /** `token`, `spent-state`, `ended-login` and others. */
  kind: string;
  outcome: 'hit' | 'miss' | 'waited' | 'failed';
}

/** Message of `nestjs-exhibitor:drift`: one per breach that `onDrift: 'ignore'` accepts. */
export interface DriftMessage {
  tenant: string;
  field: string;
  page: number;
  expected: number | string;
  seen: number | string;
}

interface Messages {
  token: TokenMessage;
  request: RequestMessage;
  lookup: LookupMessage;
  login: LoginMessage;
  store: StoreMessage;
  drift: DriftMessage;
}

const channels = {
  token: channel('nestjs-exhibitor:token'),
  request: channel('nestjs-exhibitor:request'),
  lookup: channel('nestjs-exhibitor:lookup'),
  login: channel('nestjs-exhibitor:login'),
  store: channel('nestjs-exhibitor:store'),
  drift: channel('nestjs-exhibitor:drift'),
} as const;

/**
 * Publishes on a channel of `node:diagnostics_channel`. The message is created only where there is a subscriber. No message
 * contains a token, secret, cookie or e-mail address.
 */
export function publish<Name extends keyof Messages>(name: Name, message: () => Messages[Name]): void {
  if (channels[name].hasSubscribers) {
    channels[name].publish(message());
  }
}
