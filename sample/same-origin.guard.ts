import { BadRequestException, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { ExhibitorRequest } from 'nestjs-exhibitor';

/**
 * Refuses a request that changes something where a page of another origin caused it, as the module does for logout and selection.
 * `SameSite=Lax` does not: a page of a neighbour port or subdomain is of the same site. A request with neither header is of no browser.
 */
@Injectable()
export class SameOriginGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers } = context.switchToHttp().getRequest<ExhibitorRequest>();
    const { 'sec-fetch-site': site, origin, host } = headers;
    const isOwn =
      site === 'same-origin' ||
      site === 'none' ||
      (origin === undefined ? site === undefined : hostOf(origin) === host);
    if (!isOwn) {
      throw new BadRequestException('this form must come from this site');
    }
    return true;
  }
}

function hostOf(origin: unknown): string | undefined {
  return typeof origin === 'string' && URL.canParse(origin) ? new URL(origin).host : undefined;
}
