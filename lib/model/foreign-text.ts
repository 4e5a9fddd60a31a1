/** A part of a text that is not shown: from `start` up to, but not including, `end`. */
export interface HiddenPart {
  start: number;
  end: number;
}

/** How {@link foreignText} shows a text. */
export interface ForeignTextRules {
  /** Most characters that are shown. Default 100. */
  longest?: number;
  /** Finds further parts to hide, in the beginning of the text. */
  find?: (beginning: string) => HiddenPart[];
  /** Length of the longest part that `find` finds. */
  longestPart?: number;
}

const REMOVED = '[removed]';

/** Longest e-mail address, RFC 5321 §4.5.3.1: 64 characters, `@`, 255 characters. */
const LONGEST_ADDRESS = 320;

const WORD = /[^\s<>"'()]+/g;
const AT_SIGN = /@|%(?:25)*40/i;
/** Control and format characters, line separators, lone surrogates: they could forge log lines or reverse their text. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/**
 * Text from outside (service, provider, browser) for log lines and error messages: short, in one line, without e-mail
 * addresses.
 *
 * Only the beginning of the text is read, so that the time does not depend on its length. It is longer than what is shown: a
 * part that the end of the shown text would cut is still found as a whole.
 */
export function foreignText(text: string, rules: ForeignTextRules = {}): string {
  const { longest = 100, find = () => [], longestPart = 0 } = rules;
  const kept = longest * 4;
  const beginning = text.slice(0, kept + Math.max(longestPart, LONGEST_ADDRESS));
  const shown = withoutParts(beginning.slice(0, kept), [...addressesIn(beginning), ...find(beginning)]);
  const isCut = shown.length > longest || text.length > kept;
  return `${shown.slice(0, longest).replace(UNPRINTABLE, ' ')}${isCut ? '…' : ''}`;
}

/** Words with an `@`, also percent-encoded. */
function addressesIn(text: string): HiddenPart[] {
  return [...text.matchAll(WORD)]
    .filter(([word]) => AT_SIGN.test(word))
    .map(({ index, 0: word }) => ({ start: index, end: index + word.length }));
}

function withoutParts(text: string, parts: readonly HiddenPart[]): string {
  let shown = '';
  let at = 0;
  for (const { start, end } of parts.toSorted((one, other) => one.start - other.start)) {
    if (start >= at && start < text.length) {
      shown += text.slice(at, start) + REMOVED;
    }
    at = Math.max(at, end);
  }
  return shown + text.slice(at);
}
