import { Inject, Injectable } from '@nestjs/common';
import * as v from 'valibot';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import { parseUrl } from '../model/urls.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { MOST_KEYS, type KeySource } from '../config/key-source.js';
import { endpointUrl, isAllowedUrl } from '../config/value-schemas.js';
import { addressOption } from '../config/problems/partner-problems.js';
import { described } from '../config/problems/claim-text.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { loginOf, type EndpointName, type Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { Calls } from '../call/calls.service.js';
import { Rests } from '../call/partner.js';
import type { TransportRequest } from '../http/transport-request.interface.js';
import { Transport } from '../http/transport.service.js';
import { keySetOf, type KeySet } from './key-set.js';
import { PublishedDocuments } from './published-documents.js';

const NAMES = {
  keys: 'the keys of the provider',
  metadata: 'the metadata of the provider',
  userinfo: 'userinfo',
} as const;

/** Accepted types of keys and metadata. Some servers answer 406 where that of RFC 7517 §8.5.2 is missing. */
export const PUBLISHED_TYPES = 'application/json, application/jwk-set+json';

/** The members of the metadata that are used (Discovery 1.0 §3, RP-Initiated Logout 1.0 §2.1). They never add algorithms. */
const MEMBERS: Readonly<Record<EndpointName | 'keys', string>> = {
  authorize: 'authorization_endpoint',
  token: 'token_endpoint',
  userinfo: 'userinfo_endpoint',
  endSession: 'end_session_endpoint',
  keys: 'jwks_uri',
};

/** True where every authorization response has an `iss` (RFC 9207 §3). */
const SENDS_ISS = 'authorization_response_iss_parameter_supported';

/** These members as published: an address is checked when it is needed. */
type Metadata = Readonly<Record<string, unknown>>;

/**
 * Addresses and keys of a tenant's provider: those of the options; with `login.discovery` those of the provider's metadata (OpenID
 * Connect Discovery 1.0 §4); else those of the service. What cannot be used is a {@link LoginFailedError}.
 */
@Injectable()
export class OpenIdProvider {
  readonly #allowedOrigins: ExhibitorSettings['allowedOrigins'];
  readonly #metadata: PublishedDocuments<Metadata>;
  readonly #keys: PublishedDocuments<KeySet>;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Transport) private readonly transport: Transport,
    @Inject(Calls) calls: Calls,
    @Inject(Clock) clock: Clock,
    @Inject(Rests) rests: Rests,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#allowedOrigins = settings.allowedOrigins;
    const documents = <T>(kind: string): PublishedDocuments<T> =>
      new PublishedDocuments(kind, settings.http.deadline, clock, calls, rests, (tenant) =>
        transport.dispatcherOf(tenant),
      );
    this.#metadata = documents('metadata');
    this.#keys = documents('keys');
  }

  /** As {@link findUrl}; refuses a provider without one. */
  async urlOf(tenant: Tenant, name: 'authorize' | 'token' | 'keys', call: Call): Promise<string> {
    const url = await this.findUrl(tenant, name, call);
    return url ?? this.#refuse(tenant, 'metadata', unusableUrl(MEMBERS[name]));
  }

  /**
   * The URL of an endpoint, or of the keys by discovery; `undefined` where the provider has none. The rules for one of the metadata are
   * those for URLs of the options, since secrets and codes are sent there.
   */
  async findUrl(tenant: Tenant, name: keyof typeof MEMBERS, call: Call): Promise<string | undefined> {
    if (name !== 'keys' && !tenant.isDiscovered(name)) {
      return tenant.endpointUrl(name);
    }
    const published = (await this.#metadataOf(tenant, call))[MEMBERS[name]] ?? undefined;
    if (published === undefined) {
      return undefined;
    }
    const { success, output: url, issues } = v.safeParse(endpointUrl, published);
    if (success && this.#isAllowed(url, tenant)) {
      return url;
    }
    const expected = `${MEMBERS[name]} ${success ? 'on one of allowedOrigins' : issues[0].message}`;
    return this.#refuse(tenant, 'metadata', unusableUrl(expected, published));
  }

  #isAllowed(url: string, { key }: Tenant): boolean {
    try {
      return isAllowedUrl(url, key, this.#allowedOrigins);
    } catch (error) {
      throw this.log.hostError({ option: 'allowedOrigins', key }, Object(error).cause);
    }
  }

  /** True where an authorization response without `iss` must be refused (RFC 9207 §2.4). */
  async requiresIss(tenant: Tenant, call: Call): Promise<boolean> {
    const { requireIss, discovery } = loginOf(tenant);
    return requireIss ?? (discovery && (await this.#metadataOf(tenant, call))[SENDS_ISS] === true);
  }

  /** The keys of the provider. Those that did not verify a token are `rejected`: outside of a pause, they are fetched again. */
  async keysOf(tenant: Tenant, call: Call, rejected?: KeySet): Promise<KeySet> {
    const source: KeySource = tenant.login?.keys ?? {
      kind: 'url',
      url: await this.urlOf(tenant, 'keys', call),
    };
    const fetch = async (limit: Call): Promise<KeySet> => {
      if (source.kind === 'pem') {
        // It has no `kid`: it is the key for every `kid`.
        return { keys: [source.key], kids: [], fitting: () => Promise.resolve([source.key]) };
      }
      // Keys of the options are parsed as often as those of a URL are fetched.
      const jwks = source.kind === 'jwks' ? source.jwks : await this.get(tenant, 'keys', source.url, limit);
      const expected = `a JWKS of at most ${MOST_KEYS} keys, one of them a public signing key`;
      return (await keySetOf(jwks)) ?? this.#refuse(tenant, 'keys', { reason: 'provider', expected });
    };
    const name = source.kind === 'url' ? source.url : tenant.registration;
    return this.#keys.read(name, tenant, call, fetch, rejected);
  }

  /** Its issuer must be that of the options, character by character (Discovery 1.0 §4.3). */
  #metadataOf(tenant: Tenant, call: Call): Promise<Metadata> {
    const { issuer } = loginOf(tenant);
    const fetch = async (limit: Call): Promise<Metadata> => {
      const body = await this.get(tenant, 'metadata', metadataUrl(issuer), limit);
      if (body['issuer'] !== issuer) {
        const received = `issuer ${described(body['issuer'])}`;
        return this.#refuse(tenant, 'metadata', { reason: 'issuer', expected: `issuer ${issuer}`, received });
      }
      return Object.fromEntries([...Object.values(MEMBERS), SENDS_ISS].map((name) => [name, body[name]]));
    };
    return this.#metadata.read(issuer, tenant, call, fetch);
  }

  /** The JSON object that the provider answers. */
  async get(
    tenant: Tenant,
    operation: keyof typeof NAMES,
    url: string,
    call: Call,
    headers: TransportRequest['headers'] = { accept: PUBLISHED_TYPES },
  ): Promise<Record<string, unknown>> {
    const request = { operation, method: 'GET', url, template: new URL(url).pathname, headers } as const;
    const sent = this.transport.send(tenant, request, call);
    const { status, body } = await usableReply(sent, NAMES[operation]);
    return status === 200 && isRecord(body)
      ? body
      : this.#refuse(tenant, operation, { reason: 'provider', received: `status ${status}` });
  }

  /** Tells the operator why a reply cannot be used. */
  #refuse(tenant: Tenant, operation: keyof typeof NAMES, refusal: Refusal): never {
    const { reason, option = addressOption(tenant, operation), expected, received } = refusal;
    this.log.report(tenant, {
      cause: `${operation} ${expected ?? received}`,
      options: [option].flat(),
      message: `${NAMES[operation]} cannot be used`,
      expected,
      received,
    });
    throw new LoginFailedError(reason, unusable(NAMES[operation]), { tenant: tenant.key });
  }
}

function unusableUrl(expected: string, published?: unknown): Refusal {
  return { reason: 'provider', option: 'login.discovery', expected, received: described(published) };
}

/** A malformed reply of the provider refuses the login (401). Other errors, such as of a request without a reply, are passed on. */
export async function usableReply<R>(reply: Promise<R>, name: string): Promise<R> {
  try {
    return await reply;
  } catch (error) {
    const isMalformed = isExhibitorError(error) && error.code === 'malformed_response';
    throw isMalformed ? new LoginFailedError('provider', unusable(name), { tenant: error.tenant }) : error;
  }
}

const unusable = (name: string): string => `${name}: the reply cannot be used`;

/**
 * Discovery 1.0 §4: a trailing slash is removed from the issuer, so that two issuers may have one address. Percent-encoded, as a request
 * needs it. An issuer that is no URL stays as it is.
 */
export function metadataUrl(issuer: string): string {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  return parseUrl(url)?.href ?? url;
}
