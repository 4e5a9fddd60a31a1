import * as v from 'valibot';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { whole } from '../options/value-schemas.js';

/** Parameters of one login, over the options of the tenant. What is absent is taken from the tenant. */
export interface LoginParameters {
  /** `none`, or one or several of `login`, `consent`, `select_account` and `create`, separated by spaces. */
  prompt?: string;
  /** Who logs in, for the form of the provider; 1 to 512 characters. Sent as `login_hint`. */
  loginHint?: string;
  /** Requested authentication contexts, separated by spaces; 1,024 characters at most. Sent as `acr_values`. */
  acrValues?: string;
  /** Preferred languages (BCP 47), separated by spaces; 256 characters at most. Sent as `ui_locales`. */
  uiLocales?: string;
  /** Largest age of the authentication in seconds, from 0. The smaller of it and that of the tenant is sent and enforced. */
  maxAge?: number;
  /** GUID of the branding; 128 characters at most. Sent as `tenantId`. */
  brandingTenantId?: string;
}

const PROMPTS = ['none', 'login', 'consent', 'select_account', 'create'];
const LANGUAGE = /^[A-Za-z\d]{1,8}(?:-[A-Za-z\d]{1,8}){0,9}$/;
const VISIBLE = /^[\x21-\x7e]+$/;
const CONTROL = /\p{Cc}/u;

const textOf = (longest: number, isValid: (value: string) => boolean) =>
  v.optional(v.pipe(v.string(), v.maxLength(longest), v.check(isValid)));

const wordsOf = (value: string, isWord: (word: string) => boolean) => value.split(' ').every(isWord);

const parametersSchema = v.strictObject({
  // OIDC Core §3.1.2.1: `none` with another value is an error.
  prompt: textOf(
    64,
    (value) => value === 'none' || wordsOf(value, (word) => word !== 'none' && PROMPTS.includes(word)),
  ),
  loginHint: textOf(512, (value) => value !== '' && !CONTROL.test(value)),
  acrValues: textOf(1_024, (value) => wordsOf(value, (word) => VISIBLE.test(word))),
  uiLocales: textOf(256, (value) => wordsOf(value, (word) => LANGUAGE.test(word))),
  maxAge: v.optional(whole(0, 31_536_000)),
  brandingTenantId: textOf(128, (value) => VISIBLE.test(value)),
});

/**
 * Checks the parameters of one login: hosts may take them from a request.
 *
 * @throws {ExhibitorError} `invalid_argument` for a wrong value or an unknown name. Neither is shown: they may come from the request
 */
export function checkLoginParameters(value: unknown, tenant: string): LoginParameters {
  if (value === undefined || value === null) {
    return {};
  }
  const parsed = v.safeParse(parametersSchema, value);
  if (parsed.success) {
    return parsed.output;
  }
  throw new ExhibitorError('invalid_argument', 'getLoginParameters: not valid parameters of a login', {
    tenant,
  });
}
