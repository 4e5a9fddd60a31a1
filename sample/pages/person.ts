import type { ExhibitorIdentity } from 'nestjs-exhibitor';

/** How a page calls the person who is logged in. */
export interface Person {
  name: string;
  email: string;
}

/** The guards put the identity on `request.user`. */
export function personOf(request: { user?: unknown }): Person | undefined {
  const identity = request.user as ExhibitorIdentity | undefined;
  if (!identity) {
    return undefined;
  }
  const { name } = identity.claims;
  return { name: typeof name === 'string' && name !== '' ? name : identity.email, email: identity.email };
}
