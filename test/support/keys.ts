import { readFileSync } from 'node:fs';

/** A file of `keys/`: an RSA private key of 2048 bits that is used in tests only. */
export type KeyName = 'sandbox' | 'provider' | 'provider-next' | 'attacker';

/** Reads a key, or the self-signed certificate of one; to generate one takes about 200 ms of CPU time. */
export function pemOf(name: KeyName | 'provider-certificate'): string {
  return readFileSync(new URL(`keys/${name}.pem`, import.meta.url), 'utf8');
}
