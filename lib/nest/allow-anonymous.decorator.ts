import { SetMetadata, type CustomDecorator } from '@nestjs/common';
import { ALLOW_ANONYMOUS } from './execution-context.js';

/**
 * Lets requests without a user pass {@link ExhibitorIdentityGuard} and {@link ExhibitorGuard}, on a handler or a controller; the
 * handler wins. What has expired, was logged out or does not open counts as nobody. For nobody, `@CurrentIdentity()` and
 * `@CurrentExhibitor()` are `undefined`, `@CurrentExhibitors()` is `[]`, the last two behind {@link ExhibitorGuard}. A user needs neither
 * an event nor an exhibitor.
 *
 * On a controller it does not open a guard in `@UseGuards` of a handler.
 *
 * @param allowed `false` closes a handler of a controller that has the decorator. Default true
 * @example
 * @Get() @AllowAnonymous()
 * home(@CurrentIdentity() identity?: ExhibitorIdentity) { return { name: identity?.claims['name'] }; }
 */
export function AllowAnonymous(allowed = true): CustomDecorator<symbol> {
  return SetMetadata(ALLOW_ANONYMOUS, allowed);
}
