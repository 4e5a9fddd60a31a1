/** This file imports no other one: the command line and OpenTelemetry read it without Nest. */
import { isIPv4 } from 'node:net';

/**
 * The URL, or `undefined` where the text is none. `URL.canParse` is not used: in Node 20 and 22, after some thousand calls, it is
 * false for valid texts with `ü` and other characters of Latin-1.
 */
export function parseUrl(text: string, base?: string): URL | undefined {
  try {
    return new URL(text, base);
  } catch {
    return undefined;
  }
}

/** True for a host name or address that is always this machine: `localhost`, `*.localhost` (RFC 6761 §6.3), `127.0.0.0/8` and `[::1]`. */
export function isLoopback(hostname: string): boolean {
  return (
    `.${hostname}`.endsWith('.localhost') ||
    hostname === '[::1]' ||
    (isIPv4(hostname) && hostname.startsWith('127.'))
  );
}

/**
 * The path of a lookup, which holds the e-mail address of a contact: up to it, and it, raw or encoded. An event and a base URL may have
 * `contactEmail` in them too: the last one counts.
 */
const LOOKUP_PATH = /^(.*\/contactEmail\/)([^/]+)/;

/** The contact in a path as it was sent; empty for any other path than that of a lookup. */
export function contactIn(pathname: string): string {
  return LOOKUP_PATH.exec(pathname)?.[2] ?? '';
}

/** The path without its contact. Any other path stays as it is. */
export function withoutContact(pathname: string): string {
  return pathname.replace(LOOKUP_PATH, '$1{contactEmail}');
}
