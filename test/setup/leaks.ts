import { inspect } from 'node:util';

/** Formats that must never be shown: e-mail addresses, signed and sealed tokens, credentials in headers. */
const SHAPES: readonly [name: string, shape: RegExp][] = [
  ['an e-mail address', /[\p{L}\p{N}._+'-](?:@|%40)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}/u],
  ['a token', /eyJ[\w-]{8,}\.[\w-]*\./],
  ['a bearer token', /Bearer\s+[\w.~+/-]{8,}/i],
  ['basic credentials', /Basic\s+[\w+/=]{8,}/i],
];

const BASE64 = /[A-Za-z0-9+/_-]{16,}={0,2}/g;

/** Secrets of the tests, added where they are created. */
export const knownSecrets = new Set<string>();

/** The forms in which an error is logged. */
function shownForms(error: unknown): string[] {
  return [JSON.stringify(error) ?? '', inspect(error, { depth: Infinity }), String(error)];
}

/** Names of the secrets that an error shows; empty where there are none. */
export function leaksOf(error: unknown): string[] {
  const shown = shownForms(error).join('\n');
  const text = [shown, ...decoded(shown)].join('\n');
  const leaks = SHAPES.filter(([, shape]) => shape.test(text)).map(([name]) => name);
  const showsSecret = [...knownSecrets].some((secret) => formsOf(secret).some((form) => text.includes(form)));
  return showsSecret ? [...leaks, 'a secret'] : leaks;
}

const forms = new Map<string, readonly string[]>();

function formsOf(secret: string): readonly string[] {
  const known = forms.get(secret);
  if (known !== undefined) {
    return known;
  }
  const bytes = Buffer.from(secret);
  const hex = bytes.toString('hex');
  const base64 = bytes.toString('base64').replace(/=+$/, '');
  const created = [secret, encodeURIComponent(secret), base64, hex, hex.toUpperCase()];
  forms.set(secret, created);
  return created;
}

function decoded(text: string): string[] {
  return [...text.matchAll(BASE64)].map(([run]) => Buffer.from(run, 'base64').toString('utf8'));
}
