import { hash } from 'node:crypto';

/** Characters of {@link shortDigestOf}: 132 bits. */
const SHORT = 22;

/**
 * The SHA-256 of a text in base64url, 43 characters: names a value in memory or in the store without showing it, whatever its
 * length.
 */
export function digestOf(text: string): string {
  return hash('sha256', text, 'base64url');
}

/** The beginning of a digest, where bytes are scarce: 22 characters, for names and values of cookies. */
export function shortDigestOf(text: string): string {
  return digestOf(text).slice(0, SHORT);
}
