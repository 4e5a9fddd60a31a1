import { inspect } from 'node:util';
import { ConfigurationError } from '../errors/configuration.error.js';
import { shortDigestOf } from '../model/digest.js';
import type { HttpSettings } from './tenant-options.interface.js';
import type { LoginSettings, TenantSettings } from './tenant-settings.js';

/** Name of an endpoint of the provider, as in the option `endpoints`. @internal */
export type EndpointName = keyof NonNullable<TenantSettings['endpoints']>;

/** Identifies the state of a tenant in memory. */
export interface StateKey {
  readonly id: number;
  /** Its base URL has answered a request. A field takes 8 bytes, an entry of a WeakMap 50. */
  hasAnswered: boolean;
}

let lastStateId = 0;

/** A checked tenant. Its options are a private field, so that no log or inspection of a tenant shows a secret. */
export class Tenant {
  /** Key of the tenant in the options. */
  readonly key: string;
  /** Sent as `X-Tenant-Id`. */
  readonly tenantId: string;
  /** URL of the REST API, without a trailing slash. */
  readonly baseUrl: string;
  /** URL of the identity provider, without a trailing slash. */
  readonly authUrl: string;

  /** @internal */
  readonly http: HttpSettings;
  /**
   * Key of the state of this tenant (tokens, limits, keys): the object in WeakMaps, its `id` in cache
   * keys. A tenant that was read again unchanged keeps it. Otherwise it is new, and nothing of the former state is found.
   *
   * @internal
   */
  readonly stateKey: StateKey;
  /** See {@link registrationOf}; empty without a login. @internal */
  readonly registration: string;
  readonly #settings: TenantSettings;

  /** @internal */
  constructor(key: string, settings: TenantSettings, http: HttpSettings, stateKey: StateKey = newStateKey()) {
    this.key = key;
    this.tenantId = settings.tenantId;
    this.baseUrl = settings.baseUrl;
    this.authUrl = settings.authUrl;
    this.#settings = settings;
    this.http = settings.http === undefined ? http : { ...http, ...settings.http };
    this.stateKey = stateKey;
    this.registration = settings.login === undefined ? '' : registrationOf(settings.login);
    Object.freeze(this);
  }

  /**
   * The endpoint of the options, else that of the service (service spec, endpoints 1, 4 and 5). That of tokens for the API client is
   * always this one, whatever discovery says.
   *
   * @internal
   */
  endpointUrl(name: EndpointName): string {
    return this.#settings.endpoints?.[name] ?? `${this.authUrl}/connect/${name.toLowerCase()}`;
  }

  /** True where the metadata of the provider names this endpoint of a login. @internal */
  isDiscovered(name: EndpointName): boolean {
    return this.#settings.endpoints?.[name] === undefined && this.#settings.login?.discovery === true;
  }

  /** @internal */
  get login(): LoginSettings | undefined {
    return this.#settings.login;
  }

  /** The same tenant with a new {@link stateKey}. @internal */
  withoutState(): Tenant {
    return new Tenant(this.key, this.#settings, this.http);
  }

  /** @internal */
  get settings(): TenantSettings {
    return this.#settings;
  }

  /** What logs and replies show of a tenant. */
  toJSON(): object {
    const { key, tenantId, baseUrl, authUrl } = this;
    return { key, tenantId, baseUrl, authUrl };
  }

  /** `util.inspect` with `getters: true` would otherwise show the results of the getters above. */
  [inspect.custom](): object {
    return this.toJSON();
  }
}

/** Settings of a tenant with a login in the browser. @internal */
export type BrowserLogin = LoginSettings & { clientId: string; redirectUri: string };

/**
 * The login settings of a tenant.
 *
 * @throws {ExhibitorError} `configuration_invalid` where it has none
 * @internal
 */
export function loginOf(tenant: Tenant): LoginSettings {
  return tenant.login ?? missingLogin(tenant.key);
}

/**
 * The settings of a tenant for logins in the browser.
 *
 * @throws {ExhibitorError} `configuration_invalid` where it has no login in the browser
 * @internal
 */
export function browserLoginOf(tenant: Tenant): BrowserLogin {
  const { login } = tenant;
  return login !== undefined && isBrowserLogin(login) ? login : missingLogin(tenant.key);
}

function isBrowserLogin(login: LoginSettings): login is BrowserLogin {
  return login.clientId !== undefined && login.redirectUri !== undefined;
}

function missingLogin(tenantKey: string): never {
  throw new ConfigurationError(
    [{ path: 'login', expected: 'is required: this tenant has no login' }],
    tenantKey,
  );
}

/** True for the hybrid flow, whose response is a form POST. The response of the code flow is a query. @internal */
export function isHybrid({ responseType }: Pick<LoginSettings, 'responseType'>): boolean {
  return responseType !== 'code';
}

/**
 * Names the client registration whose tokens a tenant accepts: issuer, client and `keys`. A tenant of a source can copy issuer and
 * client of another one, but cannot sign by its keys. Tenants that have all three in common are one registration: a logout at the
 * provider ends the logins of all of them. A digest, since it is sealed into cookies.
 */
function registrationOf({ issuer, clientId = '', keys }: LoginSettings): string {
  return shortDigestOf(JSON.stringify([issuer, clientId, sourceOf(keys)]));
}

/** The URL of the keys; `undefined` where the metadata of the issuer names it; else the keys themselves. */
function sourceOf(keys: LoginSettings['keys']): unknown {
  switch (keys?.kind) {
    case 'url':
      return keys.url;
    case 'jwks':
      return keys.jwks.keys;
    case 'pem':
      return { spki: keys.key.export({ type: 'spki', format: 'der' }).toString('base64') };
    case undefined:
      return undefined;
  }
}

/** A state that no tenant has yet. */
function newStateKey(): StateKey {
  lastStateId += 1;
  return { id: lastStateId, hasAnswered: false };
}
