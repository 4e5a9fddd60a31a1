const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * True where a JSON text has more than `most` values and names. `JSON.parse` cannot be interrupted, and its time and memory
 * depend on their number: 5 MiB of `{}` take a hundred times as long as 5 MiB of text, and 20 times their size.
 */
export function hasMoreValuesThan(data: Buffer, most: number): boolean {
  // Fewer bytes cannot have more values.
  if (data.length <= most) {
    return false;
  }
  let values = 0;
  let texts = 0;
  for (let at = 0; at < data.length; at += 1) {
    const byte = data[at] ?? 0;
    if (byte === QUOTE) {
      texts += 1;
      at = endOfText(data, at);
    } else if (isStructure(byte)) {
      values += 1;
    }
    // JSON has a separator between any two texts.
    if (values > most || texts > most + 1) {
      return true;
    }
  }
  return false;
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

/** True for `,`, `:`, `[` and `{`, each of which begins or follows a value or a name. */
function isStructure(byte: number): boolean {
  return byte === 0x2c || byte === 0x3a || byte === 0x5b || byte === 0x7b;
}
