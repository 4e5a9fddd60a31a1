import {
  Body,
  Controller,
  Get,
  Inject,
  Param,
  Post,
  Query,
  ParseIntPipe,
  Redirect,
  Req,
  Res,
  UseFilters,
  UseGuards,
} from '@nestjs/common';
import {
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorBackChannelLogoutGuard,
  ExhibitorCallbackGuard,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorSelection,
  ExhibitorsService,
  type Exhibitor,
  type ExhibitorIdentity,
} from '../../lib/index.js';

/** The controller of the README, with a route for each decorator. */
@Controller()
export class BoothController {
  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection,
  ) {}

  @Get('auth/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): never {
    throw new Error('the handler of a login is never run');
  }

  @Get('auth/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity): { url: string } {
    return { url: identity.returnTo ?? '/' };
  }

  @Post('auth/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  formCallback(@CurrentIdentity() identity: ExhibitorIdentity): { url: string } {
    return { url: identity.returnTo ?? '/' };
  }

  @Post('auth/logout')
  @UseGuards(ExhibitorLogoutGuard)
  @Redirect('/', 303)
  logout(): void {}

  @Post('auth/backchannel-logout')
  @UseGuards(ExhibitorBackChannelLogoutGuard)
  backChannelLogout(): never {
    throw new Error('the handler of a back-channel logout is never run');
  }

  @Get('me')
  @UseGuards(ExhibitorIdentityGuard)
  me(@CurrentIdentity() identity: ExhibitorIdentity, @CurrentTenant() tenant: string): object {
    return { identity, tenant };
  }

  @Get('mine')
  @UseGuards(ExhibitorGuard)
  mineByQuery(@CurrentExhibitors() exhibitors: Exhibitor[], @CurrentEvent() eventId: string): object {
    return { eventId, ids: exhibitors.map(({ id }) => id) };
  }

  @Get('events/:eventId/mine')
  @UseGuards(ExhibitorGuard)
  mine(@CurrentExhibitors() exhibitors: Exhibitor[]): Exhibitor[] {
    return exhibitors;
  }

  @Get('events/:eventId/booth')
  @UseGuards(ExhibitorGuard)
  booth(@CurrentExhibitor() exhibitor: Exhibitor): Exhibitor {
    return exhibitor;
  }

  @Get('events/:eventId/booths/:exhibitorId')
  @UseGuards(ExhibitorGuard)
  boothById(@CurrentExhibitor() exhibitor: Exhibitor): Exhibitor {
    return exhibitor;
  }

  @Post('events/:eventId/select')
  @UseGuards(ExhibitorGuard)
  @UseFilters(ExhibitorExceptionFilter)
  async select(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @Body('id') id: string,
  ): Promise<object> {
    return { chosen: await this.selection.select({ request, response }, id) };
  }

  @Post('events/:eventId/clear')
  @UseGuards(ExhibitorGuard)
  async clear(@Req() request: object, @Res({ passthrough: true }) response: object): Promise<void> {
    await this.selection.clear({ request, response });
  }

  @Get('events/:eventId/exhibitors')
  @UseGuards(ExhibitorIdentityGuard)
  @UseFilters(ExhibitorExceptionFilter)
  page(
    @CurrentTenant() tenant: string,
    @Param('eventId') eventId: string,
    @Query('page', ParseIntPipe) page: number,
  ): unknown {
    return this.exhibitors.list(eventId, { tenant, page });
  }
}
