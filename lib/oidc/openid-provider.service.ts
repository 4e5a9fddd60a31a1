import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { MOST_KEYS, type KeySource } from '../options/key-source.js';
import type { Refusal } from '../problems/problem.interface.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { loginOf, type Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import type { TransportRequest } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';
import { keySetOf, pemKeySet, type KeySet } from './key-set.js';
import {
  MEMBERS,
  metadataUrl,
  parseMetadata,
  publishedUrl,
  UNUSABLE_URL,
  type Metadata,
  type MetadataUrl,
} from './parse-metadata.js';
import { PublishedDocuments } from './published-documents.js';

const NAMES = {
  keys: 'the keys of the provider',
  metadata: 'the metadata of the provider',
  userinfo: 'userinfo',
} as const;

/**
 * Addresses and keys of a tenant's provider: those of the options; with `login.discovery` those of the provider's metadata
 * (OpenID Connect Discovery 1.0 §4); else those of the service.
 *
 * Methods throw `LoginFailedError`: `issuer` where the metadata names another issuer, `provider` where it, an address or the
 * keys cannot be used; `ExhibitorError`: `service_unavailable`, `rate_limited` or `deadline_exceeded` where the provider is
 * down or slow.
 */
@Injectable()
export class OpenIdProvider {
  readonly #allowedOrigins: ExhibitorSettings['allowedOrigins'];
  readonly #metadata: PublishedDocuments<Metadata>;
  readonly #keys: PublishedDocuments<KeySet>;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Transport) private readonly transport: Transport,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(Clock) clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#allowedOrigins = settings.allowedOrigins;
    this.#metadata = new PublishedDocuments(clock, transport);
    this.#keys = new PublishedDocuments(clock, transport);
  }

  /** The URL of what every provider has. */
  async urlOf(tenant: Tenant, name: 'authorize' | 'token' | 'keys', deadline: Deadline): Promise<string> {
    const url = await this.findUrl(tenant, name, deadline);
    return url ?? this.#refuse(tenant, 'metadata', { ...UNUSABLE_URL, expected: MEMBERS[name] });
  }

  /** The URL of an endpoint, or of the keys by discovery; `undefined` where the provider has none. */
  async findUrl(tenant: Tenant, name: MetadataUrl, deadline: Deadline): Promise<string | undefined> {
    if (name !== 'keys') {
      const set = tenant.settings.endpoints?.[name];
      if (set !== undefined || tenant.login?.discovery !== true) {
        return set ?? tenant.defaultEndpoint(name);
      }
    }
    const metadata = await this.#metadataOf(tenant, deadline);
    const url = publishedUrl(metadata, name, tenant.key, this.#allowedOrigins);
    return typeof url === 'object' ? this.#refuse(tenant, 'metadata', url) : url;
  }

  /** True where an authorization response without `iss` must be refused (RFC 9207 §2.4). */
  async requiresIss(tenant: Tenant, deadline: Deadline): Promise<boolean> {
    const { requireIss, discovery } = tenant.login ?? {};
    if (requireIss !== undefined || discovery !== true) {
      return requireIss === true;
    }
    return (await this.#metadataOf(tenant, deadline)).sendsIss;
  }

  /**
   * The keys of the provider.
   *
   * @param useless keys of which none verifies a token: they are read again. The answer is the same where there are no newer ones
   */
  async keysOf(tenant: Tenant, deadline: Deadline, useless?: KeySet): Promise<KeySet> {
    const source: KeySource = tenant.login?.keys ?? {
      kind: 'url',
      url: await this.urlOf(tenant, 'keys', deadline),
    };
    const fetch = async (): Promise<KeySet> => {
      if (source.kind === 'pem') {
        return pemKeySet(source.key);
      }
      const jwks = source.kind === 'jwks' ? source.jwks : await this.#fetch(tenant, 'keys', source.url);
      const expected = `a JWKS of at most ${MOST_KEYS} keys, one of them a public signing key`;
      return (await keySetOf(jwks)) ?? this.#refuse(tenant, 'keys', { reason: 'provider', expected });
    };
    const name = source.kind === 'url' ? source.url : tenant.registration;
    return this.#keys.read(name, tenant, deadline, fetch, useless);
  }

  #metadataOf(tenant: Tenant, deadline: Deadline): Promise<Metadata> {
    const { issuer } = loginOf(tenant);
    const fetch = async (): Promise<Metadata> => {
      const metadata = parseMetadata(await this.#fetch(tenant, 'metadata', metadataUrl(issuer)), issuer);
      return 'reason' in metadata ? this.#refuse(tenant, 'metadata', metadata) : metadata;
    };
    return this.#metadata.read(issuer, tenant, deadline, fetch);
  }

  /** Half of the time: after a failure the callers go on with the last good document. */
  #fetch(tenant: Tenant, document: 'keys' | 'metadata', url: string): Promise<Record<string, unknown>> {
    return this.deadlines.within(tenant.http.deadline / 2, (deadline) =>
      this.get(tenant, document, url, deadline),
    );
  }

  /** The JSON object that the provider answers. */
  async get(
    tenant: Tenant,
    operation: keyof typeof NAMES,
    url: string,
    deadline: Deadline,
    headers?: TransportRequest['headers'],
  ): Promise<Record<string, unknown>> {
    const request = { operation, method: 'GET', url, template: new URL(url).pathname, headers } as const;
    const sent = this.transport.send(tenant, request, deadline);
    const { status, body } = await usableReply(sent, NAMES[operation]);
    return status === 200 && isRecord(body)
      ? body
      : this.#refuse(tenant, operation, { reason: 'provider', received: `status ${status}` });
  }

  /** Tells the operator why a reply cannot be used. */
  #refuse(tenant: Tenant, operation: keyof typeof NAMES, refusal: Refusal): never {
    const { reason, option, expected, received } = refusal;
    // They decide where it is read.
    const options = {
      keys: [tenant.keysOption],
      metadata: ['login.issuer', 'login.discovery'],
      userinfo: [tenant.endpointOption('userinfo')],
    };
    this.log.report(tenant, {
      cause: `${operation} ${expected}`,
      options: option === undefined ? options[operation] : [option],
      message: `${NAMES[operation]} cannot be used`,
      expected,
      received,
    });
    throw unusableReply(NAMES[operation], tenant.key, reason);
  }
}

/**
 * A reply of the identity provider. One that cannot be used is a refusal (401); a provider that is slow, down or limits our
 * requests is not (503, 504).
 *
 * @param name the provider's endpoint, for the error message
 */
export async function usableReply<R>(reply: Promise<R>, name: string): Promise<R> {
  try {
    return await reply;
  } catch (error) {
    const isMalformed = isExhibitorError(error) && error.code === 'malformed_response';
    throw isMalformed ? unusableReply(name, error.tenant) : error;
  }
}

function unusableReply(
  name: string,
  tenant: string | undefined,
  reason: LoginFailureReason = 'provider',
): LoginFailedError {
  return new LoginFailedError(reason, `${name}: the reply cannot be used`, { tenant });
}
