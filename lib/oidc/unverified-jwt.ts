import { isRecord } from '../model/json-values.js';

/**
 * The header or the claims of a JWT that is not verified yet. They only select what verifies it. Empty where they are
 * unreadable. Synchronous, and without jose, which is loaded with the first verification.
 */
export function unverified(token: string, part: 'header' | 'claims'): Record<string, unknown> {
  // An encrypted token has five parts, of which only the header is readable.
  const parts = token.split('.', 6);
  const isComplete = parts.length === 3 || (parts.length === 5 && part === 'header');
  const text = parts[part === 'header' ? 0 : 1] ?? '';
  const bytes = Buffer.from(text, 'base64url');
  // Buffer ignores what is not base64url, so that the encoded form must be compared.
  if (!isComplete || bytes.toString('base64url') !== text) {
    return {};
  }
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
