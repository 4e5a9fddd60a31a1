import { createHash, hkdfSync } from 'node:crypto';

/** A key for JWE in compact form with `dir` and A256GCM (RFC 7516 §3.1). Loads jose when it is first used. */
export class SealingKey {
  readonly #secret: Uint8Array;
  readonly #fields: { alg: 'dir'; enc: 'A256GCM'; kid: string };
  /** The protected header of everything that is sealed with this key. Nothing with another header is opened. */
  readonly #header: string;

  /** @param purpose keys of one secret for different purposes have nothing in common */
  constructor(secret: string, purpose: string) {
    this.#secret = new Uint8Array(hkdfSync('sha256', secret, '', `nestjs-exhibitor:${purpose}`, 32));
    const kid = createHash('sha256').update('id:').update(this.#secret).digest('base64url').slice(0, 8);
    this.#fields = { alg: 'dir', enc: 'A256GCM', kid };
    this.#header = Buffer.from(JSON.stringify(this.#fields)).toString('base64url');
  }

  async seal(text: string): Promise<string> {
    const { CompactEncrypt } = await import('jose');
    return new CompactEncrypt(new TextEncoder().encode(text))
      .setProtectedHeader(this.#fields)
      .encrypt(this.#secret);
  }

  /**
   * The text; `undefined` where it was not sealed with this key or was changed. Only one encoding of a sealed value is accepted:
   * what is remembered of it is found by its digest.
   */
  async open(sealed: string): Promise<string | undefined> {
    if (!sealed.startsWith(`${this.#header}..`) || !sealed.split('.').every(isCanonical)) {
      return undefined;
    }
    const { compactDecrypt } = await import('jose');
    try {
      const { plaintext } = await compactDecrypt(sealed, this.#secret);
      return new TextDecoder().decode(plaintext);
    } catch {
      return undefined;
    }
  }
}

/** Decoders ignore what is not base64url, so that the encoded form must be compared. */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part;
}
