import type * as OidcProvider from 'oidc-provider';
import { LOGIN_PATH } from './route.js';
import type { SandboxState } from './sandbox-state.js';
import type { SeedPerson } from './seed.js';

/** Converts a person of the seed to an account of `oidc-provider`. */
export function accountOf(person: SeedPerson | undefined): OidcProvider.Account | undefined {
  if (!person) {
    return undefined;
  }
  const { sub, name, email, emailVerified, emailOnlyInUserinfo } = person;
  return {
    accountId: sub,
    claims: (use) =>
      use === 'id_token' && emailOnlyInUserinfo
        ? { sub, name }
        : {
            sub,
            name,
            ...(email && { email }),
            ...(emailVerified !== undefined && { email_verified: emailVerified }),
          },
  };
}

/** Returns the grant of the session, or creates one with every scope: the sandbox does not ask for consent. */
export async function findOrCreateGrant(
  context: OidcProvider.KoaContextWithOIDC,
): Promise<OidcProvider.Grant | undefined> {
  const { session, client, provider } = context.oidc;
  if (!session?.accountId || !client) {
    return undefined;
  }
  const grantId = session.grantIdFor(client.clientId);
  const existing = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  if (existing?.accountId === session.accountId) {
    return existing;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: client.clientId });
  grant.addOIDCScope('openid profile email');
  await grant.save();
  return grant;
}

/**
 * The URL of the login page for an authorization request. It detaches the
 * interaction from the browser session: otherwise `oidc-provider` rejects the interaction if another person has logged
 * in meanwhile in another tab.
 */
export async function loginPageUrl(
  _context: unknown,
  interaction: OidcProvider.Interaction,
): Promise<string> {
  interaction.session = undefined;
  await interaction.persist();
  return `${LOGIN_PATH}/${interaction.uid}`;
}

/** The default policy of `oidc-provider`, with a login prompt if `signInAs` selects another person than the session. */
export function createLoginPolicy(oidc: typeof OidcProvider, state: SandboxState) {
  const { Check, base } = oidc.interactionPolicy;
  const prompts = base();
  prompts.get('login')?.checks.add(
    new Check('signed_in_as', 'the sandbox logs in another person', ({ oidc: { session, result } }) => {
      const person = state.signedInAs;
      return person !== undefined && session?.accountId !== person.sub && !result?.login
        ? Check.REQUEST_PROMPT
        : Check.NO_NEED_TO_PROMPT;
    }),
  );
  return prompts;
}
