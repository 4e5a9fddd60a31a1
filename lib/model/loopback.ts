import { isIPv4 } from 'node:net';

/** True for a host name or address that is always this machine: `localhost`, `*.localhost` (RFC 6761 §6.3), `127.0.0.0/8` and `[::1]`. */
export function isLoopback(hostname: string): boolean {
  return (
    `.${hostname}`.endsWith('.localhost') ||
    hostname === '[::1]' ||
    (isIPv4(hostname) && hostname.startsWith('127.'))
  );
}
