import { untrustedText, REMOVED, shownPart } from './untrusted-text.js';

/**
 * {@link untrustedText} that may repeat a secret of the request that it answers. Where any form of one occurs (raw, URL-encoded,
 * base64 or hexadecimal), nothing of the text is shown.
 *
 * @param longest most characters that are shown
 */
export function hideSecrets(text: string, secrets: readonly string[], longest = 300): string {
  const forms = [...new Set(secrets.filter((secret) => secret !== '').flatMap(formsOf))];
  const longestForm = Math.max(0, ...forms.map((form) => form.length));
  // A form that begins where text is shown is found as a whole. Upper case, since `%2f` equals `%2F`.
  const read = text.slice(0, shownPart(longest) + longestForm).toUpperCase();
  const hasSecret = forms.some((form) => read.includes(form.toUpperCase()));
  return hasSecret ? REMOVED : untrustedText(text, longest);
}

function formsOf(secret: string): string[] {
  const encoded = encodeURIComponent(secret);
  const form = new URLSearchParams({ s: secret }).toString().slice(2);
  const hex = Buffer.from(secret).toString('hex');
  return [secret, encoded, form, encodeURIComponent(encoded), hex, ...base64Forms(secret)];
}

/**
 * Base64 of a text that contains the secret depends on the position of the secret, modulo three bytes. For each position:
 * the characters that do not depend on the text around it.
 */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((offset) => {
    const packed = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64url');
    const stable = packed.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
    return stable.length < 4 ? [] : [stable, stable.replaceAll('-', '+').replaceAll('_', '/')];
  });
}
