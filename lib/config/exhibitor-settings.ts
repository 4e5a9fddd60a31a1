/**
 * Schema of the module options, without the tenants. For an option of several forms `v.lazy` chooses the form by the value:
 * `v.union` would not name the wrong member of an object.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec';
import * as v from 'valibot';
import type { ExhibitorModuleOptions } from './exhibitor-options.interface.js';
import type { ModuleHttpSettings } from './tenant-options.interface.js';
import {
  callable,
  flag,
  milliseconds,
  oneOf,
  optionsOf,
  text,
  whole,
  type AllowedOrigins,
} from './value-schemas.js';
import { isRecord } from '../model/json-values.js';
import { parseUrl } from '../model/urls.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { LONGEST_TIMER } from '../call/clock.js';
import { HTTP_DEFAULTS, moduleHttpSchema } from './tenant-settings.js';

const SESSION_MODES = ['cookie', 'host', 'bearer'] as const;
const sessionMode = oneOf(SESSION_MODES);
const count = whole(1, 10_000_000, 'entries');

const origin = v.pipe(
  text,
  v.check(
    (value) => parseUrl(value)?.origin === value.replace(/\/$/, ''),
    'must be an origin, https://host[:port]',
  ),
  v.transform((value) => value.replace(/\/$/, '')),
);

const origins = v.array(origin, 'must be a list of origins');

const allowedOrigins = v.pipe(
  v.array(origin, 'must be a list of origins or a function'),
  v.transform(
    (list): AllowedOrigins =>
      (one) =>
        list.includes(one),
  ),
);

const store = v.custom<SharedStore>(
  (value) => isRecord(value) && ['get', 'set', 'delete'].every((name) => typeof value[name] === 'function'),
  'must have the methods get, set and delete',
);

const standardSchema = v.custom<StandardSchemaV1>(
  (value) =>
    ((typeof value === 'object' && value !== null) || typeof value === 'function') && '~standard' in value,
  'must be a Standard Schema (zod, valibot, arktype, …)',
);

const lookupCache = optionsOf(
  {
    ttl: v.optional(milliseconds, 60_000),
    max: v.optional(count, 10_000),
    staleIfError: v.optional(whole(0, 86_400_000, 'milliseconds'), 0),
    maxBytes: v.optional(whole(1, Number.MAX_SAFE_INTEGER, 'bytes'), 64 * 1024 * 1024),
  },
  'must be { ttl, max, maxBytes, staleIfError } or false',
);

const logoutCheck = optionsOf({
  ttl: v.optional(whole(0, LONGEST_TIMER, 'milliseconds'), 1_000),
  provider: v.optional(flag, false),
});

/** Not `__Host-`, which is ours to add. */
const cookieName = v.pipe(
  v.string('must be a string'),
  v.regex(/^[A-Za-z][\w-]{0,31}$/, 'must be a letter and up to 31 more letters, digits, - and _'),
);

/** Longest life of a cookie, in ms: browsers cut a longer one to 400 days (RFC 6265bis §5.5). */
export const LONGEST_COOKIE = 400 * 86_400_000;

/** Shortest cookie secret, in characters. */
export const SHORTEST_SECRET = 32;

const cookieTtl = whole(1, LONGEST_COOKIE, 'milliseconds');

const sameSite = v.picklist(
  ['lax', 'none'],
  "must be 'lax' or 'none': with 'strict', a browser that comes back from a provider on another site sends no identity, and its login never ends",
);

const cookies = v.pipe(
  optionsOf({
    name: v.optional(cookieName, 'exhibitor'),
    loginTtl: v.optional(cookieTtl, 3_600_000),
    identityTtl: v.optional(cookieTtl, 28_800_000),
    absoluteTtl: v.optional(cookieTtl),
    sameSite: v.optional(sameSite, 'lax'),
  }),
  v.transform((given) => ({ ...given, absoluteTtl: given.absoluteTtl ?? given.identityTtl })),
);

const sessionModes = v.pipe(v.array(sessionMode), v.nonEmpty('must not be empty'));
const oneSessionMode = v.picklist(SESSION_MODES, "must be 'cookie', 'host', 'bearer' or a list of them");

export const moduleSchema = v.object({
  tenantCache: v.optional(
    optionsOf({
      ttl: v.optional(milliseconds, 60_000),
      max: v.optional(count, 10_000),
      staleIfError: v.optional(whole(0, LONGEST_TIMER, 'milliseconds'), 3_600_000),
    }),
    {},
  ),
  resolveTenant: v.optional(callable<NonNullable<ExhibitorModuleOptions['resolveTenant']>>()),
  resolveEvent: v.optional(callable<NonNullable<ExhibitorModuleOptions['resolveEvent']>>()),
  resolveExhibitor: v.optional(callable<NonNullable<ExhibitorModuleOptions['resolveExhibitor']>>()),
  secrets: v.optional(
    v.array(
      v.pipe(
        v.string('must be a string'),
        v.minLength(SHORTEST_SECRET, `must have at least ${SHORTEST_SECRET} characters`),
        v.check((secret) => new Set(secret).size >= 12, 'must have at least 12 different characters'),
      ),
      'must be a list of strings',
    ),
    [],
  ),
  cookies: v.optional(cookies, {}),
  session: v.optional(
    v.pipe(
      v.lazy((value) => (Array.isArray(value) ? sessionModes : oneSessionMode)),
      v.transform((mode) => (typeof mode === 'string' ? [mode] : [...new Set(mode)])),
      v.check(
        (modes) => !(modes.includes('cookie') && modes.includes('host')),
        "must not name both 'cookie' and 'host': one of them keeps the identity",
      ),
    ),
    'cookie',
  ),
  http: v.optional(
    v.pipe(
      moduleHttpSchema,
      v.transform((http): ModuleHttpSettings => ({ ...HTTP_DEFAULTS, ...http })),
    ),
    {},
  ),
  axios: v.optional(callable<NonNullable<ExhibitorModuleOptions['axios']>>()),
  allowedOrigins: v.optional(
    v.lazy((value) => (typeof value === 'function' ? callable<AllowedOrigins>() : allowedOrigins)),
  ),
  trustedOrigins: v.optional(origins, []),
  lookupCache: v.optional(
    v.lazy((value) => (value === false ? v.literal(false) : lookupCache)),
    {},
  ),
  logoutCheck: v.optional(logoutCheck, {}),
  store: v.optional(store),
  exhibitorSchema: v.optional(standardSchema),
  exhibitorId: v.optional(callable<(exhibitor: unknown) => unknown>()),
  exhibitorLabel: v.optional(callable<(exhibitor: unknown) => unknown>()),
});

export type ExhibitorSettings = v.InferOutput<typeof moduleSchema>;
