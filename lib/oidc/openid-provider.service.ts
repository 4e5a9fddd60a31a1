import { Inject, Injectable } from '@nestjs/common';
import type { CompactVerifyGetKey } from 'jose';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { MOST_KEYS, type KeySource } from '../options/key-source.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { EndpointName, Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { keySetOf, type KeySet } from './key-set.js';
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
    @Inject(CHECKED_OPTIONS) { settings }: Pick<CheckedOptions, 'settings'>,
    @Inject(Transport) private readonly transport: Pick<Transport, 'send' | 'dispatcherOf'>,
    @Inject(Deadlines) private readonly deadlines: Pick<Deadlines, 'within'>,
    @Inject(Clock) clock: Clock,
    @Inject(ProblemLog) private readonly log: Pick<ProblemLog, 'report'>,
  ) {
    this.#allowedOrigins = settings.allowedOrigins;
    this.#metadata = new PublishedDocuments(clock);
    this.#keys = new PublishedDocuments(clock);
  }

  async urlOf(tenant: Tenant, name: 'authorize' | 'token' | 'userinfo', deadline: Deadline): Promise<string> {
    return (await this.findUrl(tenant, name, deadline)) ?? refuse(tenant, `names no ${name} endpoint`);
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
   * The keys for a token whose header has this `kid`. They are fetched again where none has it, and where its signature fits none
   * of `used`. The answer is `used` where there are no newer ones.
   */
  async keysFor(
    tenant: Tenant,
    kid: string | undefined,
    deadline: Deadline,
    used?: CompactVerifyGetKey,
  ): Promise<CompactVerifyGetKey> {
    const source = await this.#keySourceOf(tenant, deadline);
    if (source.kind === 'pem') {
      return used ?? (() => source.key);
    }
    if (source.kind === 'jwks') {
      const fixed = this.#fixedKeys.get(source) ?? keySetOf(source.jwks);
      this.#fixedKeys.set(source, fixed);
      return (await fixed).getKey;
    }
    const keys = await this.#publishedKeys(tenant, source.url, deadline);
    const useless = lacksKey(keys, kid, used);
    return (useless ? await this.#publishedKeys(tenant, source.url, deadline, keys) : keys).getKey;
  }

  async #keySourceOf(tenant: Tenant, deadline: Deadline): Promise<KeySource> {
    const set = tenant.login?.keys;
    if (set !== undefined) {
      return set;
    }
    const url = await this.#discoveredUrl(tenant, 'keys', deadline);
    return { kind: 'url', url: url ?? refuse(tenant, 'names no keys') };
  }

  /** The URL that the metadata names; `undefined` where it names none. */
  async #discoveredUrl(tenant: Tenant, name: MetadataUrl, deadline: Deadline): Promise<string | undefined> {
    const metadata = await this.#metadataOf(tenant, deadline);
    const url = publishedUrl(metadata, name, tenant.key, this.#allowedOrigins);
    if (typeof url !== 'object') {
      return url;
    }
    this.log.report(tenant, {
      cause: `metadata ${name}`,
      options: ['login.discovery'],
      message: `${NAMES.metadata} names an address that is not accepted`,
      ...url,
    });
    return refuse(tenant, 'names an address that is not accepted');
  }

  #metadataOf(tenant: Tenant, deadline: Deadline): Promise<Metadata> {
    const issuer = tenant.login?.issuer ?? '';
    const fetch = async (): Promise<Metadata> => {
      const metadata = parseMetadata(await this.#fetch('metadata', tenant, metadataUrl(issuer)), issuer);
      if ('reason' in metadata) {
        // Also where the last good metadata is used meanwhile.
        const { reason, received } = metadata;
        this.log.report(tenant, {
          cause: 'metadata',
          options: METADATA_OPTIONS,
          message: `${NAMES.metadata} cannot be used (${reason})`,
          expected: `issuer ${issuer}`,
          received,
        });
        return refuse(tenant, `cannot be used (${reason})`, reason);
      }
      return metadata;
    };
    return this.#metadata.read(this.#nameOf(tenant, issuer), tenant, deadline, fetch);
  }

  #publishedKeys(tenant: Tenant, url: string, deadline: Deadline, useless?: KeySet): Promise<KeySet> {
    const fetch = async (): Promise<KeySet> => {
      const keys = keySetOf(await this.#fetch('keys', tenant, url));
      // Also where the last good keys are used meanwhile.
      keys.catch(() =>
        this.log.report(tenant, {
          cause: 'keys',
          options: [tenant.keysOption],
          message: `${NAMES.keys} cannot be used`,
          expected: `a JWKS of at most ${MOST_KEYS} keys, one of them a public signing key`,
        }),
      );
      return keys;
    };
    return this.#keys.read(this.#nameOf(tenant, url), tenant, deadline, fetch, useless);
  }

  /** The body of a document, under the limits of the tenant that asks. */
  async #fetch(operation: 'keys' | 'metadata', tenant: Tenant, url: string): Promise<unknown> {
    const request = { operation, method: 'GET', url, template: operation } as const;
    // Half of the time: after a failure the callers go on with the last good document.
    const { status, body } = await this.deadlines.within(tenant.http.deadline / 2, (deadline) =>
      usableReply(this.transport.send(tenant, request, deadline), NAMES[operation]),
    );
    if (status !== 200) {
      const missing =
        operation === 'keys'
          ? { options: [tenant.keysOption], message: 'the address of the keys does not answer them' }
          : { options: METADATA_OPTIONS, message: `${NAMES.metadata} was not found` };
      this.log.report(tenant, { cause: operation, ...missing, received: `status ${status}` });
      throw unusableReply(NAMES[operation], tenant.key);
    }
    return body;
  }

  /** Name of a document. What a proxy of one tenant answers is not for the others. */
  #nameOf(tenant: Tenant, id: string): string {
    const dispatcher = this.transport.dispatcherOf(tenant);
    return `${dispatcher === undefined ? 0 : idOf(dispatcher)} ${id}`;
  }
}

/** True where none of these keys fits: they were tried, as `used`, or none has the `kid`. */
function lacksKey(keys: KeySet, kid: string | undefined, used: CompactVerifyGetKey | undefined): boolean {
  if (used !== undefined) {
    return keys.getKey === used;
  }
  return kid !== undefined && !keys.kids.has(kid);
}

const dispatcherIds = new WeakMap<object, number>();
let lastDispatcherId = 0;

function idOf(dispatcher: object): number {
  const id = dispatcherIds.get(dispatcher) ?? (lastDispatcherId += 1);
  dispatcherIds.set(dispatcher, id);
  return id;
}

function refuse(tenant: Tenant, why: string, reason: LoginFailureReason = 'provider'): never {
  throw new LoginFailedError(reason, `${NAMES.metadata} ${why}`, { tenant: tenant.key });
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
