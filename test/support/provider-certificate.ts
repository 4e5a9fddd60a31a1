import { sign } from 'node:crypto';
import type { SigningKey } from './provider-keys.js';

/** A self-signed certificate (X.509 version 1, RFC 5280 §4.1) of an RSA key, which some providers publish as their key. */
export function certificateOf({ publicKey, privateKey }: SigningKey): string {
  const sha256WithRsa = der(0x30, Buffer.from('06092a864886f70d01010b0500', 'hex'));
  const name = der(
    0x30,
    der(0x31, der(0x30, Buffer.from('0603550403', 'hex'), der(0x0c, Buffer.from('IdP')))),
  );
  const validity = der(0x30, time('20200101000000Z'), time('20991231235959Z'));
  const key = publicKey.export({ format: 'der', type: 'spki' });
  const content = der(0x30, Buffer.from('020101', 'hex'), sha256WithRsa, name, validity, name, key);
  const signature = der(0x03, Buffer.of(0), sign('sha256', content, privateKey));
  const certificate = der(0x30, content, sha256WithRsa, signature).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${certificate.match(/.{1,64}/g)?.join('\n')}\n-----END CERTIFICATE-----\n`;
}

/** One DER element. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const value = Buffer.concat(parts);
  const long = Buffer.from(value.length.toString(16).padStart(4, '0'), 'hex');
  const length = value.length < 128 ? Buffer.of(value.length) : Buffer.concat([Buffer.of(0x82), long]);
  return Buffer.concat([Buffer.of(tag), length, value]);
}

function time(text: string): Buffer {
  return der(0x18, Buffer.from(text));
}
