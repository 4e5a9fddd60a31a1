import { inspect } from 'node:util';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { HttpSettings } from '../options/http-options.interface.js';
import type { LoginSettings, TenantSettings } from '../options/tenant-settings.js';

/**
 * A checked tenant. Its own properties name it; its secrets are behind private fields, so that no log or inspection
 * of a tenant shows them.
 */
export class Tenant {
  /** Key the host knows the tenant by. */
  readonly key: string;
  /** Sent as `X-Tenant-Id`. */
  readonly tenantId: string;
  /** Of the REST API, without a trailing slash. */
  readonly baseUrl: string;
  /** Of the identity provider, without a trailing slash. */
  readonly authUrl: string;

  readonly #settings: TenantSettings;
  readonly #http: HttpSettings;
  readonly #anchor: object;

  constructor(key: string, settings: TenantSettings, http: HttpSettings, anchor: object = {}) {
    this.key = key;
    this.tenantId = settings.tenantId;
    this.baseUrl = settings.baseUrl;
    this.authUrl = settings.authUrl;
    this.#settings = settings;
    this.#http = settings.http === undefined ? http : { ...http, ...settings.http };
    this.#anchor = anchor;
    Object.freeze(this);
  }

  /**
   * What is kept for a tenant (tokens, budgets, keys) hangs on this object in WeakMaps. A tenant that was read again
   * unchanged keeps it; one that leaves the registry takes everything along.
   *
   * @internal
   */
  get stateKey(): object {
    return this.#anchor;
  }

  /** @internal */
  get http(): HttpSettings {
    return this.#http;
  }

  /** @internal */
  get clientId(): string {
    return this.#settings.clientId;
  }

  /** @internal */
  get scope(): string | null {
    return this.#settings.scope;
  }

  /** @internal */
  get login(): LoginSettings | undefined {
    return this.#settings.login;
  }

  /** Asked for each token request; a host's function may read a vault. @internal */
  readClientSecret(): string | Promise<string> {
    const { clientSecret } = this.#settings;
    return typeof clientSecret === 'function' ? clientSecret() : clientSecret;
  }

  /** True where the host gave the secret as a function, which may have a newer one. @internal */
  get hasSecretFunction(): boolean {
    return typeof this.#settings.clientSecret === 'function';
  }

  /** The same tenant without anything kept for it. @internal */
  renewed(): Tenant {
    return new Tenant(this.key, this.#settings, this.#http);
  }

  /** @internal */
  get settings(): TenantSettings {
    return this.#settings;
  }

  /** `inspect` with `showHidden` and `getters` would otherwise run the getters above. */
  [inspect.custom](): object {
    const { key, tenantId, baseUrl, authUrl } = this;
    return { key, tenantId, baseUrl, authUrl };
  }
}

/** Settings of the registry. */
export type RegistrySettings = Pick<
  ExhibitorSettings,
  'http' | 'session' | 'allowedOrigins' | 'secrets' | 'cookies' | 'tenantCache'
>;
