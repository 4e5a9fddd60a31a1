const GONE = '[removed]';
const LONGEST = 300;
const EMAIL = /[^\s@<>"'()]+@[^\s@<>"'()]+/g;
const JWT = /\beyJ[\w-]*\.[\w-]+(?:\.[\w-]*)*/g;
const BEARER = /\b(Bearer|Basic)\s+\S+/gi;

/**
 * Text of the service that may be shown: without the secrets of the request (raw, URL-encoded or base64), and without
 * anything that looks like a token or an e-mail address.
 *
 * @param secrets values of the request that must not be shown
 */
export function scrub(text: string, secrets: readonly string[]): string {
  const forms = [...new Set(secrets.filter((secret) => secret !== '').flatMap(formsOf))];
  // The longest first: a shorter form may be part of a longer one, whose rest would remain.
  const known = forms
    .toSorted((one, other) => other.length - one.length)
    .reduce((rest, form) => rest.replace(new RegExp(literal(form), 'gi'), GONE), text);
  return printable(known.replace(BEARER, `$1 ${GONE}`).replace(JWT, GONE).replace(EMAIL, GONE));
}

/** Escapes a text for a regular expression, which ignores case: `%2f` equals `%2F`. */
function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`);
}

function printable(text: string): string {
  const clean = text.replace(/[^\x20-\x7e\u00a0-\uffff]/g, ' ');
  return clean.length > LONGEST ? `${clean.slice(0, LONGEST)}…` : clean;
}

function formsOf(secret: string): string[] {
  const encoded = encodeURIComponent(secret);
  const form = new URLSearchParams({ s: secret }).toString().slice(2);
  return [secret, encoded, form, encodeURIComponent(encoded), ...base64Forms(secret)];
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
