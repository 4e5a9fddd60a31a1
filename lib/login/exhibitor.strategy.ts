import type Passport from 'passport';
import type { Tenant } from '../tenants/tenant.js';
import { browserLoginOf, isHybrid } from './browser-login.js';
import type { LoginParameters } from './login-parameters.js';
import { codeChallenge, type PendingLogin } from './pending-login.js';

/**
 * The OpenID Connect strategy that starts one login. `CallbackService` handles the callback instead: passport-openidconnect
 * verifies no signature, reads only the query and crashes on malformed replies. `validate` is therefore never called.
 *
 * passport and its strategy are loaded with the first login.
 */
async function loadStrategy() {
  const [{ PassportStrategy }, { default: passport }, { Strategy }] = await Promise.all([
    import('@nestjs/passport'),
    import('passport'),
    import('passport-openidconnect'),
  ]);

  class LoginStrategy extends PassportStrategy(Strategy, 'exhibitor') {
    private readonly parameters: Record<string, string>;

    constructor(tenant: Tenant, pending: PendingLogin, authorizeUrl: string, parameters: LoginParameters) {
      const login = browserLoginOf(tenant);
      // passport-openidconnect adds `openid` itself.
      const scope = login.scope.split(' ').filter((name) => name !== 'openid');
      super({
        issuer: login.issuer,
        authorizationURL: authorizeUrl,
        // Required by the package, and never requested: `CodeExchange` and `UserInfo` do that.
        tokenURL: tenant.authUrl,
        userInfoURL: tenant.authUrl,
        clientID: login.clientId,
        clientSecret: '',
        callbackURL: login.redirectUri,
        ...(scope.length > 0 ? { scope } : {}),
        store: {
          store: (
            _request: unknown,
            _context: unknown,
            _appState: unknown,
            _meta: unknown,
            done: StateStored,
          ) => done(null, pending.state),
          verify: () => undefined,
        },
      });
      this.parameters = {
        nonce: pending.nonce,
        code_challenge: codeChallenge(pending.verifier),
        code_challenge_method: 'S256',
        ...(isHybrid(login) ? { response_mode: 'form_post' } : {}),
        ...defined({
          prompt: parameters.prompt ?? login.prompt,
          max_age: pending.maxAge?.toString(),
          tenantId: parameters.brandingTenantId ?? login.brandingTenantId,
          login_hint: parameters.loginHint,
          acr_values: parameters.acrValues,
          ui_locales: parameters.uiLocales,
        }),
      };
    }

    /** Parameters that passport-openidconnect does not know (OIDC Core §3.1.2.1, RFC 7636 §4.3). */
    override authorizationParams(): Record<string, string> {
      return { ...this.parameters };
    }

    validate(): false {
      return false;
    }

    /** A new Passport: in the global one, strategies are registered by name and tenants would replace each other. */
    protected getPassportInstance(): Passport.Authenticator {
      return new passport.Passport();
    }
  }

  return { passport, LoginStrategy };
}

let loaded: ReturnType<typeof loadStrategy> | undefined;

type StateStored = (error: Error | null, state: string) => void;

/** The parameters that have a value. */
function defined(parameters: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(parameters).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/**
 * The address of the provider to which the browser is redirected.
 *
 * @param authorizeUrl authorization endpoint of the provider
 */
export async function authorizationUrl(
  tenant: Tenant,
  pending: PendingLogin,
  authorizeUrl: string,
  parameters: LoginParameters,
): Promise<string> {
  const { passport, LoginStrategy } = await (loaded ??= loadStrategy());
  return new Promise((resolve, reject) => {
    // The request has no query: the package would handle `code` or `error` in it as a callback. The response only records
    // the address: Fastify's reply does not have the methods that passport calls.
    const request = { query: {}, headers: {} };
    const response = {
      setHeader: (name: string, value: string) => {
        if (name === 'Location') {
          resolve(withResponseType(value, pending.responseType));
        }
      },
      end: () => undefined,
    };
    const authenticate = passport.authenticate(new LoginStrategy(tenant, pending, authorizeUrl, parameters), {
      session: false,
    });
    authenticate(request, response, reject);
  });
}

/** passport-openidconnect always requests `code`. */
function withResponseType(location: string, responseType: string): string {
  const url = new URL(location);
  url.searchParams.set('response_type', responseType);
  return url.href;
}
