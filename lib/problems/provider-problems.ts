import { MOST_KEYS } from '../options/key-source.js';
import type { EndpointPaths, Problem } from './problem.interface.js';

/** Options that decide where the metadata of the provider is read. */
const METADATA_OPTIONS = ['login.issuer', 'login.discovery'];

/** By what an address of the provider should answer: the message, and the options that decide about the address. */
const EXPECTED_REPLIES: Readonly<
  Record<'metadata' | 'keys' | 'userinfo', [string, (tenant: EndpointPaths) => readonly string[]]>
> = {
  metadata: ['the metadata of the provider was not found', () => METADATA_OPTIONS],
  keys: ['the address of the keys does not answer them', (tenant) => [tenant.keysOption]],
  userinfo: ['userinfo answered without claims', (tenant) => [tenant.endpointOption('userinfo')]],
};

/** An address of the provider answers something else. */
export function unexpectedReply(
  expected: keyof typeof EXPECTED_REPLIES,
  tenant: EndpointPaths,
  status: number,
): Problem {
  const [message, optionsOf] = EXPECTED_REPLIES[expected];
  return { cause: expected, options: optionsOf(tenant), message, received: `status ${status}` };
}

/** Userinfo is read as JSON. Some providers sign it for clients that are registered so. */
export function unreadableUserInfo(tenant: EndpointPaths): Problem {
  return {
    cause: 'userinfo',
    options: [tenant.endpointOption('userinfo')],
    message:
      'userinfo answered no JSON. If the provider signs it, remove userinfo_signed_response_alg from this client at the provider',
  };
}

/** The metadata names another issuer or is no object. */
export function uselessMetadata(reason: string, issuer: string, received: string): Problem {
  return {
    cause: 'metadata',
    options: METADATA_OPTIONS,
    message: `the metadata of the provider cannot be used (${reason})`,
    expected: `issuer ${issuer}`,
    received,
  };
}

/** The metadata names an address that the options do not accept. */
export function refusedAddress(
  name: string,
  { expected, received }: { expected: string; received: string },
): Problem {
  return {
    cause: `metadata ${name}`,
    options: ['login.discovery'],
    message: 'the metadata of the provider names an address that is not accepted',
    expected,
    received,
  };
}

/** The address of the keys answers a set that cannot be used. */
export function uselessKeySet(tenant: EndpointPaths): Problem {
  return {
    cause: 'keys',
    options: [tenant.keysOption],
    message: 'the keys of the provider cannot be used',
    expected: `a JWKS of at most ${MOST_KEYS} keys, one of them a public signing key`,
  };
}

/** There are no keys, or none that can be used. */
export function uselessKeys(message: string): Problem {
  return { cause: 'keys', options: ['login.keys'], message };
}
