/** Redirects of one login are fewer than this. */
const MOST_REDIRECTS = 10;

/**
 * Follows the redirects of the provider as a browser would, up to the first address outside of it.
 *
 * @param provider origin of the provider
 * @throws Error where the provider shows a page, or sends the response by a form
 */
export async function followLogin(provider: string, address: string): Promise<string> {
  /** By name, as `name=value`. */
  const cookies = new Map<string, string>();
  let next = new URL(address, provider);
  for (let redirects = 0; redirects < MOST_REDIRECTS && next.origin === provider; redirects++) {
    const reply = await fetch(next, {
      redirect: 'manual',
      headers: { cookie: [...cookies.values()].join('; ') },
    });
    await reply.body?.cancel();
    for (const cookie of reply.headers.getSetCookie()) {
      const [pair = ''] = cookie.split(';', 1);
      cookies.set(pair.slice(0, pair.indexOf('=')), pair);
    }
    const location = reply.headers.get('location');
    if (location === null) {
      throw new Error(
        `ExhibitorSandbox.followLogin: ${next.pathname} answers ${reply.status} without a redirect; ` +
          "call signInAs before, and use the response type 'code'",
      );
    }
    next = new URL(location, next);
  }
  return next.href;
}
