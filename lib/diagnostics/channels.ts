import { channel } from 'node:diagnostics_channel';
import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import type { LoginFailureReason } from '../errors/login-failed.error.js';

/** `nestjs-exhibitor:token`: one for each answer of the token cache. */
export interface TokenMessage {
  tenant: string;
  outcome: 'hit' | 'renewed-early' | 'fetched' | 'forced' | 'shared' | 'failed';
  code?: ExhibitorErrorCode;
}

/** `nestjs-exhibitor:request`: one for each attempt on the wire. */
export interface RequestMessage {
  tenant: string;
  operation: string;
  /** Path with its parameters named, never their values: `/api/v1/exhibitor/event/{eventId}`. */
  template: string;
  status?: number;
  durationMs: number;
  attempt: number;
  code?: ExhibitorErrorCode;
}

/** `nestjs-exhibitor:lookup`: one for each lookup. */
export interface LookupMessage {
  tenant: string;
  outcome: 'hit' | 'miss' | 'stale';
}

/** `nestjs-exhibitor:login`: one for each step of a login. */
export interface LoginMessage {
  tenant?: string;
  outcome: 'started' | 'succeeded' | 'failed';
  reason?: LoginFailureReason;
}

/** `nestjs-exhibitor:drift`: one for each breach that `onDrift: 'ignore'` lets pass. */
export interface DriftMessage {
  tenant: string;
  field: string;
  page: number;
  expected: number | string;
  seen: number | string;
}

/**
 * The channels of `node:diagnostics_channel` this package publishes on. Nothing is built without a subscriber:
 * ask `hasSubscribers` before making a message. No message carries a token, secret, cookie or e-mail address.
 */
export const channels = {
  token: channel('nestjs-exhibitor:token'),
  request: channel('nestjs-exhibitor:request'),
  lookup: channel('nestjs-exhibitor:lookup'),
  login: channel('nestjs-exhibitor:login'),
  drift: channel('nestjs-exhibitor:drift'),
} as const;
