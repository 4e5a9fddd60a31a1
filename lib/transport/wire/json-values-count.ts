const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/**
 * True where a JSON text has more than `most` values and names. `JSON.parse` cannot be interrupted, and its time and memory
 * depend on their number: 5 MiB of `{}` take a hundred times as long as 5 MiB of text, and 20 times their size.
 */
export function hasMoreValuesThan(data: Uint8Array, most: number): boolean {
  // Fewer bytes cannot have more values.
  if (data.length <= most) {
    return false;
  }
  let values = 0;
  let isText = false;
  for (let at = 0; at < data.length; at += 1) {
    const byte = data[at] ?? 0;
    if (isText && byte === BACKSLASH) {
      at += 1;
    } else if (byte === QUOTE) {
      isText = !isText;
    } else if (!isText && isStructure(byte)) {
      values += 1;
      if (values > most) {
        return true;
      }
    }
  }
  return false;
}

/** True for `,`, `:`, `[` and `{`, each of which begins or follows a value or a name. */
function isStructure(byte: number): boolean {
  return byte === 0x2c || byte === 0x3a || byte === 0x5b || byte === 0x7b;
}
