import type { ExecutionContext } from '@nestjs/common';
import type { AxiosInstance } from 'axios';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Exhibitor, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import type { ModuleHttpOptions, TenantOptions, TenantSource } from './tenant-options.interface.js';

/** Where the identity of a user is kept between requests. */
export type SessionMode = 'cookie' | 'host' | 'bearer';

type MaybeAsync<T> = T | Promise<T>;

/** Exactly one of `tenant` and `tenants` is given. */
type TenantsOption =
  | {
      /** The only tenant; its key is `default`. Exactly one of `tenant` and `tenants` is given. */
      tenant: TenantOptions;
      tenants?: undefined;
    }
  | {
      tenant?: undefined;
      /** Tenants by key, or a source of tenants that are known only at run time. */
      tenants: Record<string, TenantOptions> | TenantSource;
    };

/**
 * Options of {@link ExhibitorModule}. No option is read from the environment. `T` is the type of an exhibitor, which
 * TypeScript infers from `exhibitorSchema`.
 */
export type ExhibitorModuleOptions<T = Exhibitor> = TenantsOption & CommonOptions<T>;

interface CommonOptions<T> {
  /** Cache of the tenants of a source, in this process. */
  tenantCache?:
    | {
        /** How long the options of a tenant are used before they are read again, in ms. Default 60 000. */
        ttl?: number | undefined;
        /** Tenants that are kept. What was used least recently goes, with its tokens and lookups. Default 10 000. */
        max?: number | undefined;
        /** How much longer the last good options are used while the source throws or is late, in ms. Default 3 600 000; 0: not at all. */
        staleIfError?: number | undefined;
      }
    | undefined;
  /** Key of the tenant of a request. Default: the only tenant, else that of the identity. Required for login routes with several tenants. */
  resolveTenant?:
    ((request: ExhibitorRequest, context: ExecutionContext) => MaybeAsync<string | undefined>) | undefined;
  /**
   * Event of a request. Default: route parameter `eventId`; on routes without it, query `eventId`, else, for GET and HEAD, the event
   * of the login. On a route with other parameters than `tenant` and `exhibitorId`, and in GraphQL, only this option names the event:
   * without it the reply is 400 `event_required`.
   */
  resolveEvent?:
    ((request: ExhibitorRequest, context: ExecutionContext) => MaybeAsync<string | undefined>) | undefined;
  /** Id of the exhibitor of a request. Default: route parameter `exhibitorId`, else the stored selection, else the only one. */
  resolveExhibitor?:
    ((request: ExhibitorRequest, context: ExecutionContext) => MaybeAsync<string | undefined>) | undefined;
  /**
   * Strings of at least 32 characters, at least 12 different ones, that seal cookies and stored values. The first seals, every
   * one opens. To rotate: append a new one, deploy it everywhere, then move it to the front. Required with a browser login or a
   * `store`.
   */
  secrets?: string[] | undefined;
  /**
   * Names and lifetimes of our cookies. A lifetime is 400 days at most.
   *
   * @example
   * cookies: { identityTtl: 1_800_000, absoluteTtl: 43_200_000 }, // 30 minutes without a request, 12 hours at most
   */
  cookies?:
    | {
        /**
         * How the names of our cookies begin: a letter and up to 31 more letters, digits, `-` and `_`. Default `exhibitor`. Services of
         * one host name set different ones.
         */
        name?: string | undefined;
        /** How long a login that was started may take, in ms. Default 3 600 000. */
        loginTtl?: number | undefined;
        /** How long a user stays logged in without a guarded request, in ms. Default 28 800 000. */
        identityTtl?: number | undefined;
        /**
         * How long a user stays logged in at most, in ms; not less than `identityTtl`, which is the default. Where it is longer, a guarded
         * request seals the identity anew once half of `identityTtl` has passed. With `session: 'host'` the identity ends then, and the
         * host's session decides how long it lasts without a request.
         */
        absoluteTtl?: number | undefined;
        /** Of the cookies of an identity; with `none` the login cookie has it too, and `redirectUri` must be https. Default `lax`. */
        sameSite?: 'lax' | 'none' | undefined;
      }
    | undefined;
  /**
   * `cookie` (default): a sealed cookie; `host`: the host keeps the identity, in Passport's session or by `storeIdentity` of its own
   * {@link ExhibitorCallbackGuard}; `bearer`: an access token in each request. Or `bearer` and one of the others, in order.
   */
  session?: SessionMode | SessionMode[] | undefined;
  /** Calls, retries and limits. */
  http?: ModuleHttpOptions | undefined;
  /**
   * Called once at boot with the axios instance that sends every request of the module, retries and token requests included, to
   * add interceptors, as on the `axiosRef` of `@nestjs/axios`. No other module uses this instance.
   *
   * A request interceptor can add headers and change `User-Agent`. Everything else stays that of the module: method, address,
   * body and limits, the headers `Authorization`, `X-Tenant-Id`, `Accept`, `Accept-Encoding`, `Content-Type` and `Host`, and
   * those of the connection. A response interceptor gets status and headers of every reply that the module can use, 4xx and 5xx
   * included, and no body. Without such a reply its second function gets an {@link ExhibitorError}.
   *
   * **Interceptors see secrets**: the access token, with `clientAuth: 'basic'` the client's secret, and in the address of a
   * lookup the e-mail address of the contact.
   *
   * An interceptor that throws fails the call at once with `service_unavailable` and its error as `cause`; there is no retry. The
   * time of an interceptor counts towards the `deadline` of the call.
   *
   * @example
   * axios: (instance) =>
   *   instance.interceptors.request.use((config) => {
   *     config.headers.set('traceparent', currentTraceparent());
   *     return config;
   *   }),
   */
  axios?: ((instance: AxiosInstance) => unknown) | undefined;
  /**
   * Origins on one of which every `baseUrl`, `authUrl`, endpoint and keys URL must be, with `discovery` the `issuer` too, or a function
   * that accepts the origin of one for a tenant. Required with a {@link TenantSource}: a tenant that copies the issuer of another and
   * has a token endpoint of its own can receive the codes of the other's users and log in as them. So no tenant may control an origin
   * that another tenant's login may use. Default: any.
   *
   * @example
   * allowedOrigins: (origin, tenantKey) => registeredOrigins.get(tenantKey)?.has(origin) === true,
   */
  allowedOrigins?: string[] | ((origin: string, tenantKey: string) => boolean) | undefined;
  /**
   * Origins, beside that of `redirectUri`, whose pages may log out and select: for an application on another origin than its API.
   * Default: none.
   *
   * @example
   * trustedOrigins: ['https://app.example.com'], // the API is on https://api.example.com
   */
  trustedOrigins?: string[] | undefined;
  /** Cache of lookups in this process, or `false`. What is full loses its least recently used answer. */
  lookupCache?:
    | {
        /** How long an answer is used, in ms. Default 60 000. */
        ttl?: number | undefined;
        /** Answers that are kept. Default 10 000. */
        max?: number | undefined;
        /** Bytes of the replies that are kept. Default 67 108 864 (64 MiB). */
        maxBytes?: number | undefined;
        /**
         * How much longer an answer is used while the service fails, in ms, a day at most. Default 0: not at all. A full queue of
         * ours is no failure of the service; no reply within the deadline of the call is one.
         */
        staleIfError?: number | undefined;
      }
    | false
    | undefined;
  /**
   * How it is found out that a login has ended.
   *
   * @example
   * logoutCheck: { provider: true } // with ExhibitorBackChannelLogoutGuard
   */
  logoutCheck?:
    | {
        /**
         * With a `store`, how long a process remembers that a login has not ended, in ms. Default 1 000. A logout at another process takes
         * effect within that time, one at the process itself at once. 0 asks the store at each request. A failure is not remembered.
         */
        ttl?: number | undefined;
        /**
         * Logouts at the provider are looked for, and `ExhibitorLogins` can end the logins of a user. Default false; `true` in every
         * application that accepts these identities.
         */
        provider?: boolean | undefined;
      }
    | undefined;
  /** Shares access tokens, used login states and ended logins between processes. Default: none is shared. */
  store?: SharedStore | undefined;
  /**
   * A Standard Schema (zod, valibot, arktype, …) that checks, types and cuts every record. Default: records pass as they are,
   * with the e-mail addresses of contacts where the service sends them, to everybody whom a host shows a list.
   *
   * @example
   * exhibitorSchema: z.object({ id: z.string(), name: z.string() })
   */
  exhibitorSchema?: StandardSchemaV1<unknown, T> | undefined;
  /**
   * Id of an exhibitor, by which users select it: text, or a safe integer. Anything else is no id, also a number from 2⁵³: it was
   * rounded when the reply was read, blank text, and text of over 256 bytes. Return a member itself, not `String(member)`: the text
   * `'undefined'` would be an id. Default: `exhibitor.id`, else `exhibitor.exhibitorId`.
   */
  exhibitorId?: ((exhibitor: T) => string | number | undefined) | undefined;
  /**
   * What people read of an exhibitor on the page of `routes` that asks which one they act for. Default: its `name`, `title` or
   * `companyName` where that is text, else its id.
   *
   * @example
   * exhibitorLabel: ({ companyName, hall }) => `${companyName} (hall ${hall})`,
   */
  exhibitorLabel?: ((exhibitor: T) => string | undefined) | undefined;
}

/** Interface of the class in `useClass` or `useExisting` of `forRootAsync`. */
export interface ExhibitorOptionsFactory<T = Exhibitor> {
  /** Called once at boot. */
  createExhibitorOptions(): MaybeAsync<ExhibitorModuleOptions<T>>;
}

/**
 * Returns the options as they are. In a factory it makes unknown options compile errors, which TypeScript does not report for
 * the result of a function.
 *
 * @example
 * useFactory: (config: ConfigService) =>
 *   defineExhibitorOptions({ tenant: { … }, secrets: [config.getOrThrow('COOKIE_SECRET')] }),
 */
export function defineExhibitorOptions<T = Exhibitor>(
  options: ExhibitorModuleOptions<T>,
): ExhibitorModuleOptions<T> {
  return options;
}
