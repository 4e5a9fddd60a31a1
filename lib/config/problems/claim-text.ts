/** How claims of a token or of userinfo are shown in a line. They may have any type, and what is no text must not look like one. */
import { isText } from '../../model/json-values.js';

export function described(value: unknown): string {
  if (Array.isArray(value) && value.length > 1) {
    return value.map(described).join(' or ');
  }
  const shown = isText(value) ? value : (JSON.stringify(value) ?? 'none');
  return typeof value === 'number' ? `number ${shown}` : shown;
}

/** Of a claim whose text must not be shown. */
export function formOf(value: unknown): string {
  if (Array.isArray(value)) {
    return `a list of ${new Set(value).size} different values`;
  }
  return isText(value) ? 'another text' : described(value);
}

/** Of a point in time, in seconds. */
export function timeOf(value: unknown): string {
  return typeof value === 'number' ? String(value) : formOf(value);
}
