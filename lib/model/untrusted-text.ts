/** What is shown in place of a part that must not be shown. */
const REMOVED = '[removed]';

/** Longest e-mail address, RFC 5321 §4.5.3.1: 64 characters, `@`, 255 characters. */
const LONGEST_ADDRESS = 320;

/** Quotes end a word, but an apostrophe within it, and a quoted local part of an address (RFC 5321 §4.1.2). */
const WORD = /(?:"[^"]*"(?=@|%(?:25)*40)|[^\s<>"'()]|(?<=[^\s<>"'()])'(?=[^\s<>"'()]))+/g;
/** An e-mail address, also percent-encoded, or a JWT: the base64 of `{"`. */
const ADDRESS_OR_JWT = /@|%(?:25)*40|eyJ/;
const SCHEME = /\b(?:Bearer|Basic)[:=]?$/i;
/** The value of a parameter or a JSON member that is named as a credential. `the token: expired` is prose. */
const NAMED =
  /((?:token|secret|passw(?:or)?d|api[_-]?key|authorization|assertion|credential)[\w-]{0,30}["']?(?: ?= ?|%3D|:(?=\S)| ?: ?["'])["']?)(?:(?:Bearer|Basic)[\s:=,]+)?[^\s&;,"'<>)]+/gi;
/** Control and format characters, line separators, lone surrogates: they could forge log lines or reverse their text. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** What may be shown is found in so many times as many characters: what is removed from these leaves room for what follows. */
const READ_PER_SHOWN = 4;

/**
 * Text from outside (service, provider, browser) for log lines and error messages: short, in one line, without e-mail
 * addresses, tokens and credentials.
 *
 * Only the beginning of the text is read, so that the time does not depend on its length. Its last characters, as many as an address
 * may have, are never shown: an address that begins before them is found as a whole.
 *
 * @param longest most characters that are shown
 */
export function untrustedText(text: string, longest = 100): string {
  const mayBeShown = READ_PER_SHOWN * longest;
  const read = text.slice(0, mayBeShown + LONGEST_ADDRESS);
  const neverShown = Math.max(0, read.length - mayBeShown);
  const withoutNamed = read.replace(NAMED, `$1${REMOVED}`);
  const shownEnd = withoutNamed.length - neverShown;
  let isNextCredential = false;
  const shown = withoutNamed.replace(WORD, (word, at: number) => {
    const isHidden = isNextCredential || ADDRESS_OR_JWT.test(word);
    isNextCredential = SCHEME.test(word);
    return isHidden ? REMOVED : word.slice(0, Math.max(0, shownEnd - at));
  });
  const isCut = shown.length > longest || neverShown > 0;
  return `${shown.slice(0, longest).replace(UNPRINTABLE, ' ')}${isCut ? '…' : ''}`;
}

/**
 * {@link untrustedText} that may repeat a secret of the request that it answers. Where any form of one occurs (raw, URL-encoded or
 * base64), nothing of the text is shown.
 *
 * @param longest most characters that are shown
 */
export function hideSecrets(text: string, secrets: readonly string[], longest = 300): string {
  const forms = [...new Set(secrets.filter((secret) => secret !== '').flatMap(formsOf))];
  const longestForm = Math.max(0, ...forms.map((form) => form.length));
  // A form that begins where text is shown is found as a whole. Upper case, since `%2f` equals `%2F`.
  const read = text.slice(0, READ_PER_SHOWN * longest + longestForm).toUpperCase();
  const hasSecret = forms.some((form) => read.includes(form.toUpperCase()));
  return hasSecret ? REMOVED : untrustedText(text, longest);
}

function formsOf(secret: string): string[] {
  const form = new URLSearchParams({ s: secret }).toString().slice(2);
  return [secret, encodeURIComponent(secret), form, ...base64Forms(secret)];
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

/** The name of a member of a record, or its number. A name may itself be confidential, such as an e-mail address. */
export function memberName(key: PropertyKey): string {
  const text = String(key);
  return /^[\w$-]{1,64}$/.test(text) ? text : '*';
}
