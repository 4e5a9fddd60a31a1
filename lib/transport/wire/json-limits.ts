const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Deepest nesting of a reply: everything that works on parsed JSON may recurse. */
const DEEPEST = 100;

/**
 * Why a JSON text must not be parsed; `undefined` where it may. `JSON.parse` cannot be interrupted, and its time and memory
 * depend on the number of values: 5 MiB of `{}` take a hundred times as long as 5 MiB of text, and 20 times their size.
 *
 * @param most values and names that are accepted
 */
export function beyondJsonLimits(
  data: Buffer,
  most: number,
): 'it has too many values' | 'it is nested too deeply' | undefined {
  let values = 0;
  let texts = 0;
  let depth = 0;
  for (let at = 0; at < data.length; at += 1) {
    switch (data[at]) {
      case QUOTE:
        texts += 1;
        at = endOfText(data, at);
        break;
      case OPEN_BRACKET:
      case OPEN_BRACE:
        values += 1;
        depth += 1;
        break;
      case CLOSE_BRACKET:
      case CLOSE_BRACE:
        depth -= 1;
        break;
      // Each begins or follows a value or a name.
      case COMMA:
      case COLON:
        values += 1;
        break;
    }
    if (depth > DEEPEST) {
      return 'it is nested too deeply';
    }
    // JSON has a separator between any two texts.
    if (values > most || texts > most + 1) {
      return 'it has too many values';
    }
  }
  return undefined;
}

/** Index of the quote that ends the text which begins at `start`; the end of the data where there is none. */
function endOfText(data: Buffer, start: number): number {
  for (let from = start + 1; ;) {
    const quote = data.indexOf(QUOTE, from);
    if (quote === -1) {
      return data.length;
    }
    let first = quote;
    while (first > from && data[first - 1] === BACKSLASH) {
      first -= 1;
    }
    const isEscaped = (quote - first) % 2 === 1;
    if (!isEscaped) {
      return quote;
    }
    from = quote + 1;
  }
}
