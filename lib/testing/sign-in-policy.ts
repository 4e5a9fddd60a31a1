import type * as OidcProvider from 'oidc-provider';
import type { SeedPerson } from './seed.js';

/** A seeded person as the provider wants it. */
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

/** Nobody is asked for consent: who signs in has agreed to what the client asks for. */
export async function grantEverything(
  context: OidcProvider.KoaContextWithOIDC,
): Promise<OidcProvider.Grant | undefined> {
  const { session, client, provider } = context.oidc;
  if (!session?.accountId || !client) {
    return undefined;
  }
  const grantId = session.grantIdFor(client.clientId);
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  if (known?.accountId === session.accountId) {
    return known;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: client.clientId });
  grant.addOIDCScope('openid profile email');
  await grant.save();
  return grant;
}

/**
 * Where the sign-in page of an authorize request is. The page belongs to its own request only: the package ties it to
 * the session it began in as well, and then refuses it when another tab has signed in as someone else meanwhile.
 */
export function signInUrl(path: string) {
  return async (_context: unknown, interaction: OidcProvider.Interaction): Promise<string> => {
    interaction.session = undefined;
    await interaction.persist();
    return `${path}/${interaction.uid}`;
  };
}

/** The package's own rules on when to ask, and: where the sandbox was told to sign in someone else. */
export function signInPolicy(oidc: typeof OidcProvider, signedInAs: () => SeedPerson | undefined) {
  const { Check, base } = oidc.interactionPolicy;
  const prompts = base();
  prompts.get('login')?.checks.add(
    new Check('signed_in_as', 'the sandbox signs in someone else', ({ oidc: { session, result } }) => {
      const person = signedInAs();
      return person !== undefined && session?.accountId !== person.sub && !result?.login
        ? Check.REQUEST_PROMPT
        : Check.NO_NEED_TO_PROMPT;
    }),
  );
  return prompts;
}
