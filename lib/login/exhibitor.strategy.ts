import { PassportStrategy } from '@nestjs/passport';
import passport from 'passport';
import { Strategy } from 'passport-openidconnect';
import type { Tenant } from '../tenants/tenant.js';
import { browserLoginOf, isHybrid } from './browser-login.js';
import { codeChallenge, type PendingLogin } from './pending-login.js';

/**
 * The OpenID Connect strategy for the login leg of one login. The callback leg is `CallbackService`'s: the package
 * underneath verifies no signature, reads only the query and crashes on malformed replies. `validate` is therefore
 * never reached.
 */
class LoginStrategy extends PassportStrategy(Strategy, 'exhibitor') {
  private readonly parameters: Record<string, string>;

  constructor(tenant: Tenant, pending: PendingLogin) {
    const login = browserLoginOf(tenant);
    // The package puts an `openid` of its own in front.
    const scope = login.scope.split(' ').filter((name) => name !== 'openid');
    super({
      issuer: login.issuer,
      authorizationURL: `${tenant.authUrl}/connect/authorize`,
      tokenURL: `${tenant.authUrl}/connect/token`,
      userInfoURL: `${tenant.authUrl}/connect/userinfo`,
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
      ...(login.prompt === undefined ? {} : { prompt: login.prompt }),
      ...(login.maxAge === undefined ? {} : { max_age: String(login.maxAge) }),
      ...(login.brandingTenantId === undefined ? {} : { tenantId: login.brandingTenantId }),
    };
  }

  /** Parameters beside those the package knows (OIDC Core §3.1.2.1, RFC 7636 §4.3). */
  override authorizationParams(): Record<string, string> {
    return { ...this.parameters };
  }

  validate(): false {
    return false;
  }

  /** A Passport of our own: strategies are global by name, and tenants must not meet there. */
  protected getPassportInstance(): passport.Authenticator {
    return new passport.Passport();
  }
}

type StateStored = (error: Error | null, state: string) => void;

/** The address of the provider to send the browser to. */
export function authorizationUrl(tenant: Tenant, pending: PendingLogin): Promise<string> {
  return new Promise((resolve, reject) => {
    // A request without query: in it the package would take `code` or `error` for a callback. And a response that
    // only takes the address down: Fastify's reply has none of the methods passport calls.
    const request = { query: {}, headers: {} };
    const response = {
      setHeader: (name: string, value: string) => {
        if (name === 'Location') {
          resolve(withResponseType(value, pending.responseType));
        }
      },
      end: () => undefined,
    };
    const authenticate = passport.authenticate(new LoginStrategy(tenant, pending), { session: false });
    authenticate(request, response, reject);
  });
}

/** The package always asks for `code`. */
function withResponseType(location: string, responseType: string): string {
  const url = new URL(location);
  url.searchParams.set('response_type', responseType);
  return url.href;
}
