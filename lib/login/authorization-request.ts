/**
 * Starts logins by passport-openidconnect. `CallbackVerifier` handles the callback instead: that package verifies no signature,
 * reads only the query and crashes on malformed replies.
 */
import type Passport from 'passport';
import type { StrategyOptions } from 'passport-openidconnect';
import * as v from 'valibot';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { digestOf } from '../model/digest.js';
import { whole } from '../config/value-schemas.js';
import { isHybrid, type BrowserLogin } from '../config/tenant.js';
import type { LoginParameters } from './login.interface.js';
import type { LoginRequest } from './started-login.js';

/** The provider checks what a parameter means. */
const text = v.optional(v.pipe(v.string(), v.nonEmpty(), v.maxLength(512), v.regex(/^\P{Cc}*$/u)));

const parametersSchema = v.strictObject({
  prompt: text,
  loginHint: text,
  acrValues: text,
  uiLocales: text,
  maxAge: v.optional(whole(0, 31_536_000)),
  brandingTenantId: text,
});

/** Checks the parameters of one login. Neither a wrong value nor an unknown name is shown: they may come from the request. */
export function checkLoginParameters(value: unknown, tenant: string): LoginParameters {
  const { success, output } = v.safeParse(parametersSchema, value ?? {});
  if (!success) {
    const message = 'getLoginParameters: not valid parameters of a login';
    throw new ExhibitorError('invalid_argument', message, { tenant });
  }
  return output;
}

/** The address to which the browser is redirected: the authorization endpoint of the provider, with the request. */
export async function authorizationUrl(
  login: BrowserLogin,
  request: LoginRequest,
  authorizeUrl: string,
  parameters: LoginParameters,
): Promise<string> {
  const url = new URL(await redirectOf(login, request.state, authorizeUrl));
  // The package requests `code` in any case, puts `openid` before every scope, and does not know the others (OIDC Core §3.1.2.1,
  // RFC 7636 §4.3).
  const added: Record<string, string | undefined> = {
    response_type: login.responseType,
    scope: login.scope,
    nonce: request.nonce,
    code_challenge: digestOf(request.verifier),
    code_challenge_method: 'S256',
    response_mode: isHybrid(login) ? 'form_post' : undefined,
    prompt: parameters.prompt ?? login.prompt,
    max_age: request.maxAge?.toString(),
    tenantId: parameters.brandingTenantId ?? login.brandingTenantId,
    login_hint: parameters.loginHint,
    acr_values: parameters.acrValues,
    ui_locales: parameters.uiLocales,
  };
  for (const [name, value] of Object.entries(added)) {
    if (value !== undefined) {
      url.searchParams.set(name, value);
    }
  }
  return url.href;
}

/** The address that the package redirects to. It is loaded with the first login, and so is passport. */
async function redirectOf(login: BrowserLogin, state: string, authorizeUrl: string): Promise<string> {
  const [{ PassportStrategy }, { default: passport }, { Strategy }] = await Promise.all([
    import('@nestjs/passport'),
    import('passport'),
    import('passport-openidconnect'),
  ]);

  class LoginStrategy extends PassportStrategy(Strategy, 'exhibitor') {
    declare authenticate: (request: object) => void;

    /** Never called, since the callback is not handled here. */
    validate(): false {
      return false;
    }

    /** A new Passport: in the global one, strategies are registered by name and tenants would replace each other. */
    protected getPassportInstance(): Passport.Authenticator {
      return new passport.Passport();
    }
  }

  const options: StrategyOptions = {
    issuer: login.issuer,
    authorizationURL: authorizeUrl,
    // Required by the package, and never requested: `CodeExchange` and `UserInfo` do that.
    tokenURL: authorizeUrl,
    userInfoURL: authorizeUrl,
    clientID: login.clientId,
    clientSecret: '',
    callbackURL: login.redirectUri,
    store: {
      store: (_request, _context, _appState, _meta, done) => done(null, state),
      verify: () => undefined,
    },
  };
  return new Promise((resolve, reject) => {
    // Passport's own middleware needs methods that Fastify's reply does not have.
    const strategy = Object.assign(new LoginStrategy(options), { redirect: resolve, error: reject });
    // Without a query: the package would handle `code` or `error` in it as a callback.
    strategy.authenticate({ query: {} });
  });
}
