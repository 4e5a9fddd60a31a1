import { readFileSync } from 'node:fs';

/** A file of `keys/`: an RSA private key of 2048 bits that is used in tests only, or a self-signed certificate of one. */
export type KeyName = 'sandbox' | 'provider' | 'provider-certificate' | 'attacker';

/** Reads a key; to generate one takes about 200 ms of CPU time. */
export function pemOf(name: KeyName): string {
  return readFileSync(new URL(`keys/${name}.pem`, import.meta.url), 'utf8');
}
