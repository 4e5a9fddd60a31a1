/** What is shown in place of a part that must not be shown. */
export const REMOVED = '[removed]';

/** Longest e-mail address, RFC 5321 §4.5.3.1: 64 characters, `@`, 255 characters. */
const LONGEST_ADDRESS = 320;

const WORD = /[^\s<>"'()]+/g;
/** An e-mail address, also percent-encoded, or a JWT: the base64 of `{"`. */
const ADDRESS_OR_JWT = /@|%(?:25)*40|eyJ/;
const SCHEME = /\b(?:Bearer|Basic)$/i;
/** Control and format characters, line separators, lone surrogates: they could forge log lines or reverse their text. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Characters at the beginning of a text of which any may be shown. */
export function shownPart(longest: number): number {
  return longest * 4;
}

/**
 * Text from outside (service, provider, browser) for log lines and error messages: short, in one line, without e-mail
 * addresses, tokens and credentials.
 *
 * Only the beginning of the text is read, so that the time does not depend on its length. It is longer than what is shown: an
 * address that the end of the shown text would cut is still found as a whole.
 *
 * @param longest most characters that are shown
 */
export function untrustedText(text: string, longest = 100): string {
  const end = shownPart(longest);
  let isCredential = false;
  const shown = text.slice(0, end + LONGEST_ADDRESS).replace(WORD, (word, at: number) => {
    const isHidden = isCredential || ADDRESS_OR_JWT.test(word);
    isCredential = SCHEME.test(word);
    return isHidden ? REMOVED : word.slice(0, Math.max(0, end - at));
  });
  const isCut = shown.length > longest || text.length > end;
  return `${shown.slice(0, longest).replace(UNPRINTABLE, ' ')}${isCut ? '…' : ''}`;
}
