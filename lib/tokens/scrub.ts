import { foreignText, type HiddenPart } from '../model/foreign-text.js';
import type { OAuthFailure } from '../problems/token-problems.js';

/** A JWT, whole or in part: the base64 of `{"`. */
const JWT = /eyJ[\w.+/=-]*/g;
const CREDENTIALS = /\b(?:Bearer|Basic)\s+(\S+)/gi;

/** Characters of an OAuth error code that are shown. */
const LONGEST_ERROR_CODE = 100;

/**
 * Text of the service that may be shown: without the secrets of the request (raw, URL-encoded, base64 or hexadecimal), and
 * without anything that looks like a token or an e-mail address.
 *
 * @param secrets values of the request that must not be shown
 * @param longest most characters that are shown
 */
export function scrub(text: string, secrets: readonly string[], longest = 300): string {
  const forms = [...new Set(secrets.filter((secret) => secret !== '').flatMap(formsOf))];
  return foreignText(text, {
    longest,
    longestPart: Math.max(0, ...forms.map((form) => form.length)),
    find: (beginning) => [...forms.flatMap((form) => placesOf(form, beginning)), ...tokensIn(beginning)],
  });
}

/**
 * `error` and `error_description` of the provider, without secrets.
 *
 * @param hidden values of the request that must not be shown
 */
export function scrubRefusal(
  { error, description }: { error: string; description: string | undefined },
  hidden: readonly string[],
): OAuthFailure {
  return {
    oauthError: scrub(error, hidden, LONGEST_ERROR_CODE),
    oauthErrorDescription: description === undefined ? undefined : scrub(description, hidden),
  };
}

/** Where a text contains the form, also overlapping, in any case: `%2f` equals `%2F`. */
function placesOf(form: string, text: string): HiddenPart[] {
  const [whole, wanted] = [lowerCase(text), lowerCase(form)];
  const places: HiddenPart[] = [];
  for (let start = whole.indexOf(wanted); start !== -1; start = whole.indexOf(wanted, start + 1)) {
    places.push({ start, end: start + form.length });
  }
  return places;
}

/** Lower case of ASCII letters. That of others may have another length, which would move all places. */
function lowerCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function tokensIn(text: string): HiddenPart[] {
  return [...text.matchAll(JWT), ...text.matchAll(CREDENTIALS)].map(
    ({ index, 0: match, 1: credentials }) => ({
      start: index + match.length - (credentials ?? match).length,
      end: index + match.length,
    }),
  );
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
