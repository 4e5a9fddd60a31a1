import { MOST_KEYS } from '../options/key-source.js';
import type { EndpointPaths, Problem } from './problem.interface.js';

/** Options that decide where the metadata of the provider is read. */
const METADATA_OPTIONS = ['login.issuer', 'login.discovery'];

/** There is no metadata at the address that the issuer defines. */
export function metadataNotFound(status: number): Problem {
  return {
    cause: 'metadata',
    options: METADATA_OPTIONS,
    message: 'the metadata of the provider was not found',
    received: `status ${status}`,
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

/** The address of the keys answers something else. */
export function keysNotFound(tenant: EndpointPaths, status: number): Problem {
  return {
    cause: 'keys',
    options: [tenant.keysOption],
    message: 'the address of the keys does not answer them',
    received: `status ${status}`,
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

/** The userinfo endpoint answers something else. */
export function uselessUserInfo(tenant: EndpointPaths, status: number): Problem {
  return {
    cause: 'userinfo',
    options: [tenant.endpointOption('userinfo')],
    message: 'userinfo answered without claims',
    received: `status ${status}`,
  };
}
