import { digestOf } from '../model/digest.js';
import type { TimedToken } from './token-lifetime.js';

/**
 * The token that the next one replaces, and why. It decides which token of another process is taken in its place. `text` is the
 * access token, times are of {@link Clock.now}.
 */
export type ReplacedToken =
  /** It expires soon, or has just expired: any other one is taken. Without a text, there is none that matters any more. */
  | { readonly kind: 'expiring'; readonly text: string | undefined }
  /** The service refused it: one is taken that was requested after `at`, or because the same token was refused elsewhere. */
  | { readonly kind: 'refused'; readonly text: string; readonly at: number }
  /** It came in place of a refused one, and was refused as well: none is taken. */
  | { readonly kind: 'refused-again'; readonly text: string }
  /** The host invalidated it at `at`, or whatever there might be: a token or a rejection is taken that is later than that. */
  | { readonly kind: 'invalidated'; readonly text: string | undefined; readonly at: number };

/** True for a token that is no longer good, whatever its lifetime. */
export function isBad({ kind }: ReplacedToken): boolean {
  return kind !== 'expiring';
}

/** Fingerprint of a bad token, for the token that comes in its place: that one is newer, whatever the clocks say. */
export function fingerprintOfBad(replaced: ReplacedToken): string | undefined {
  return isBad(replaced) && replaced.text !== undefined ? digestOf(replaced.text) : undefined;
}

/**
 * Whether a token of another process is taken.
 *
 * @param insteadOf fingerprint of the bad token in whose place that process requested it
 */
export function mayReplace(
  replaced: ReplacedToken,
  stored: TimedToken,
  insteadOf: string | undefined,
): boolean {
  if (stored.accessToken === replaced.text) {
    return false;
  }
  switch (replaced.kind) {
    case 'expiring':
      return true;
    case 'refused':
      return insteadOf === digestOf(replaced.text) || stored.requestedAt > replaced.at;
    case 'refused-again':
      return false;
    case 'invalidated':
      // Not one that replaced the same token: the host may have invalidated that one.
      return stored.requestedAt > replaced.at;
  }
}

/** Name of the lease on the next token: processes that replace the same token wait for each other. */
export function leaseName(client: string, { text }: ReplacedToken): string {
  return text === undefined ? client : `${client}:${digestOf(text)}`;
}
