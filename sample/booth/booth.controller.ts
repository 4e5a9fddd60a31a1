import {
  Body,
  Controller,
  Get,
  Inject,
  Post,
  Redirect,
  Render,
  Req,
  Res,
  UseFilters,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import {
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentTenant,
  ExhibitorGuard,
  ExhibitorSelection,
  type ExhibitorRequest,
} from 'nestjs-exhibitor';
import { PageInterceptor } from '../pages/page.interceptor.js';
import type { Booth } from './booth.schema.js';
import { ChooseExhibitorFilter } from './choose-exhibitor.filter.js';

/** The exhibitors of the logged-in person at an event. */
@Controller(':tenant/events/:eventId/mine')
@UseGuards(ExhibitorGuard)
@UseInterceptors(PageInterceptor)
export class BoothController {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection<Booth>) {}

  @Get()
  @UseFilters(ChooseExhibitorFilter)
  @Render('booth')
  mine(@CurrentExhibitor() exhibitor: Booth, @CurrentExhibitors() choices: readonly Booth[]) {
    return { exhibitor, choices };
  }

  @Get('choose')
  @Render('choose')
  choose(@CurrentExhibitors() choices: readonly Booth[]) {
    return { choices };
  }

  @Post('select')
  @Redirect('/', 303)
  async select(
    @CurrentTenant() tenant: string,
    @CurrentEvent() eventId: string,
    @Body('exhibitorId') exhibitorId: unknown,
    @Req() request: ExhibitorRequest,
    @Res({ passthrough: true }) response: object,
  ) {
    await this.selection.select({ request, response }, String(exhibitorId ?? ''));
    return { url: `/${tenant}/events/${encodeURIComponent(eventId)}/mine` };
  }
}
