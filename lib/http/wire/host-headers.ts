import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { AxiosRequestConfig } from 'axios';

/**
 * Headers that interceptors of the host cannot set. They name the tenant and its rights, say what is sent and accepted, or
 * belong to the connection.
 */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'x-tenant-id',
  'accept',
  'accept-encoding',
  'content-type',
  'content-length',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'expect',
  'te',
  'trailer',
]);

/**
 * The headers of a request together with those that interceptors of the host added.
 *
 * @throws {TypeError} where one of them is no HTTP header. The message names it, without its value
 */
export function withHeadersOfHost(
  own: Readonly<Record<string, string>>,
  seen: NonNullable<AxiosRequestConfig['headers']>,
): Record<string, string | string[]> {
  const all: Record<string, string | string[]> = { ...own };
  for (const [anyCase, value] of Object.entries(seen)) {
    const name = anyCase.toLowerCase();
    if (
      value === own[name] ||
      OWN_HEADERS.has(name) ||
      value === undefined ||
      value === null ||
      value === false
    ) {
      continue;
    }
    const text = Array.isArray(value) ? value.map(String) : String(value);
    validateHeaderName(name);
    [text].flat().forEach((one) => validateHeaderValue(name, one));
    all[name] = text;
  }
  return all;
}
