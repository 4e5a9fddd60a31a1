import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { MOST_KEYS, type KeySource } from '../options/key-source.js';
import type { Refusal } from '../problems/problem.interface.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { EndpointName, Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { keySetOf, pemKeySet, type KeySet } from './key-set.js';
import {
  metadataUrl,
  parseMetadata,
  publishedUrl,
  type Metadata,
  type MetadataUrl,
} from './parse-metadata.js';
import { PublishedDocuments } from './published-documents.js';

const NAMES = { keys: 'the keys of the provider', metadata: 'the metadata of the provider' } as const;

/** They decide where the metadata is read. */
const METADATA_OPTIONS = ['login.issuer', 'login.discovery'];

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
  readonly #fixedKeys = new WeakMap<KeySource, Promise<KeySet>>();

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Transport) private readonly transport: Transport,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(Clock) clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#allowedOrigins = settings.allowedOrigins;
    this.#metadata = new PublishedDocuments(clock);
    this.#keys = new PublishedDocuments(clock);
  }

  async urlOf(tenant: Tenant, name: 'authorize' | 'token', deadline: Deadline): Promise<string> {
    return (
      (await this.findUrl(tenant, name, deadline)) ??
      this.#refuseMetadata(tenant, `names no ${name} endpoint`)
    );
  }

  /** The URL of an endpoint; `undefined` where the provider has none. */
  async findUrl(tenant: Tenant, name: EndpointName, deadline: Deadline): Promise<string | undefined> {
    const set = tenant.settings.endpoints?.[name];
    if (set !== undefined || tenant.login?.discovery !== true) {
      return set ?? tenant.defaultEndpoint(name);
    }
    return this.#discoveredUrl(tenant, name, deadline);
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
   * @param useless keys of which none verifies a token: published ones are fetched again. The answer is the same where there are no
   * newer ones
   */
  async keysOf(tenant: Tenant, deadline: Deadline, useless?: KeySet): Promise<KeySet> {
    const source = tenant.login?.keys ?? {
      kind: 'url',
      url:
        (await this.#discoveredUrl(tenant, 'keys', deadline)) ??
        this.#refuseMetadata(tenant, 'names no keys'),
    };
    if (source.kind !== 'url') {
      const fixed =
        this.#fixedKeys.get(source) ??
        (source.kind === 'pem' ? pemKeySet(source.key) : keySetOf(source.jwks));
      this.#fixedKeys.set(source, fixed);
      return this.#usable(tenant, fixed);
    }
    const { url } = source;
    const fetch = async (): Promise<KeySet> =>
      this.#usable(tenant, keySetOf(await this.#fetch('keys', tenant, url)));
    return this.#keys.read(this.#nameOf(tenant, url), tenant, deadline, fetch, useless);
  }

  /** Reports keys that cannot be used. */
  async #usable(tenant: Tenant, keys: Promise<KeySet>): Promise<KeySet> {
    try {
      return await keys;
    } catch (error) {
      this.log.report(tenant, {
        cause: 'keys',
        options: [tenant.keysOption],
        message: `${NAMES.keys} cannot be used`,
        expected: `a JWKS of at most ${MOST_KEYS} keys, one of them a public signing key`,
      });
      throw error;
    }
  }

  /** The URL that the metadata names; `undefined` where it names none. */
  async #discoveredUrl(tenant: Tenant, name: MetadataUrl, deadline: Deadline): Promise<string | undefined> {
    const metadata = await this.#metadataOf(tenant, deadline);
    const url = publishedUrl(metadata, name, tenant.key, this.#allowedOrigins);
    return typeof url === 'object'
      ? this.#refuseMetadata(tenant, `names an address for ${name} that is not accepted`, url)
      : url;
  }

  #metadataOf(tenant: Tenant, deadline: Deadline): Promise<Metadata> {
    const issuer = tenant.login?.issuer ?? '';
    const fetch = async (): Promise<Metadata> => {
      const metadata = parseMetadata(await this.#fetch('metadata', tenant, metadataUrl(issuer)), issuer);
      return 'reason' in metadata
        ? this.#refuseMetadata(tenant, `cannot be used (${metadata.reason})`, metadata)
        : metadata;
    };
    return this.#metadata.read(this.#nameOf(tenant, issuer), tenant, deadline, fetch);
  }

  /** The body of a document, under the limits of the tenant that asks. */
  async #fetch(operation: 'keys' | 'metadata', tenant: Tenant, url: string): Promise<unknown> {
    const request = { operation, method: 'GET', url, template: operation } as const;
    // Half of the time: after a failure the callers go on with the last good document.
    const { status, body } = await this.deadlines.within(tenant.http.deadline / 2, (deadline) =>
      usableReply(this.transport.send(tenant, request, deadline), NAMES[operation]),
    );
    if (status !== 200) {
      const options = operation === 'keys' ? [tenant.keysOption] : METADATA_OPTIONS;
      const message = `${NAMES[operation]} could not be found`;
      this.log.report(tenant, { cause: operation, options, message, received: `status ${status}` });
      throw unusableReply(NAMES[operation], tenant.key);
    }
    return body;
  }

  #refuseMetadata(tenant: Tenant, why: string, refusal: Refusal = { reason: 'provider' }): never {
    const { reason, option, expected, received } = refusal;
    const options = option === undefined ? ['login.discovery'] : METADATA_OPTIONS;
    const message = `${NAMES.metadata} ${why}`;
    this.log.report(tenant, {
      cause: `metadata ${why}`,
      options,
      message,
      expected,
      received,
    });
    throw new LoginFailedError(reason, message, { tenant: tenant.key });
  }

  /** Name of a document. What a proxy of one tenant answers is not for the others. */
  #nameOf(tenant: Tenant, id: string): string {
    const dispatcher = this.transport.dispatcherOf(tenant);
    return `${dispatcher === undefined ? 0 : idOf(dispatcher)} ${id}`;
  }
}

const dispatcherIds = new WeakMap<object, number>();
let lastDispatcherId = 0;

function idOf(dispatcher: object): number {
  const id = dispatcherIds.get(dispatcher) ?? (lastDispatcherId += 1);
  dispatcherIds.set(dispatcher, id);
  return id;
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

export function unusableReply(name: string, tenant: string | undefined): LoginFailedError {
  return new LoginFailedError('provider', `${name}: the reply cannot be used`, { tenant });
}
