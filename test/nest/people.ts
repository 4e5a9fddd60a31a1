/** People at a host whose routes are those of the module: its pages for them, and what their browsers send. */
import { Controller, Get, UseGuards } from '@nestjs/common';
import {
  AllowAnonymous,
  CurrentExhibitor,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  type Exhibitor,
} from '../../lib/index.js';
import type { Reply, Visitor } from '../support/visitor.js';

/** What browsers send when a person opens an address, and for forms of a page of the host. */
export const PAGE = {
  accept: 'text/html,application/xhtml+xml',
  'sec-fetch-dest': 'document',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-site': 'same-origin',
};

export const open = (visitor: Visitor, url: string, headers: Record<string, string> = PAGE): Promise<Reply> =>
  visitor.visit(url, { headers });

@Controller()
export class SiteController {
  @Get()
  @AllowAnonymous()
  home(): string {
    return 'home';
  }

  @Get('events/:eventId/booth')
  @UseGuards(ExhibitorGuard)
  booth(@CurrentExhibitor() { id }: Exhibitor): string {
    return `booth ${String(id)}`;
  }

  @Get('profile')
  @UseGuards(ExhibitorIdentityGuard)
  profile(): string {
    return 'profile';
  }
}
