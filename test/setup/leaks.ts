import { inspect } from 'node:util';

/** Formats that must never be shown: e-mail addresses, signed and sealed tokens, credentials in headers. */
const SHAPES: readonly [name: string, shape: RegExp][] = [
  ['an e-mail address', /[\p{L}\p{N}._+'-](?:@|%40)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}/u],
  ['a token', /eyJ[\w-]{8,}\.[\w-]*\./],
  ['a bearer token', /Bearer\s+[\w.~+/-]{8,}/i],
  ['basic credentials', /Basic\s+[\w+/=]{8,}/i],
];

const BASE64 = /[A-Za-z0-9+/_-]{16,}={0,2}/g;

/** The forms in which a secret of the tests may be shown. */
const secretForms = new Set<string>();

/** Adds a secret of the tests, where it is created. */
export function addSecret(secret: string): void {
  const bytes = Buffer.from(secret);
  const [hex, base64] = [bytes.toString('hex'), bytes.toString('base64').replace(/=+$/, '')];
  [secret, encodeURIComponent(secret), base64, hex, hex.toUpperCase()].forEach((form) =>
    secretForms.add(form),
  );
}

/** The forms in which an error is logged. Jest would map each frame of a stack to its line, and frames show no secret. */
function shownForms(error: unknown): string[] {
  const { prepareStackTrace } = Error;
  Error.prepareStackTrace = String;
  try {
    return [JSON.stringify(error) ?? '', inspect(error, { depth: Infinity }), String(error)];
  } finally {
    Error.prepareStackTrace = prepareStackTrace;
  }
}

/** Names of the secrets that an error shows; empty where there are none. */
export function leaksOf(error: unknown): string[] {
  const shown = shownForms(error).join('\n');
  const text = [shown, ...decoded(shown)].join('\n');
  const leaks = SHAPES.filter(([, shape]) => shape.test(text)).map(([name]) => name);
  const showsSecret = [...secretForms].some((form) => text.includes(form));
  return showsSecret ? [...leaks, 'a secret'] : leaks;
}

function decoded(text: string): string[] {
  return [...text.matchAll(BASE64)].map(([run]) => Buffer.from(run, 'base64').toString('utf8'));
}
