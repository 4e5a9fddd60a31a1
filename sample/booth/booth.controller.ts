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
  ExhibitorGuard,
  ExhibitorSelection,
} from 'nestjs-exhibitor';
import type { Request, Response } from 'express';
import { PersonInterceptor } from '../pages/person.interceptor.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { describeEvent } from '../events/trade-events.js';
import type { Booth } from './booth.schema.js';
import { ChooseExhibitorFilter } from './choose-exhibitor.filter.js';

/** The exhibitors of the logged-in person at an event. */
@Controller('events/:eventId/mine')
@UseGuards(ExhibitorGuard)
@UseInterceptors(PersonInterceptor)
export class BoothController {
  constructor(
    @Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection<Booth>,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
  ) {}

  @Get()
  @UseFilters(ChooseExhibitorFilter)
  @Render('booth')
  mine(
    @CurrentEvent() eventId: string,
    @CurrentExhibitor() exhibitor: Booth,
    @CurrentExhibitors() choices: readonly Booth[],
  ) {
    return { event: describeEvent(this.options.events, eventId), exhibitor, choices };
  }

  @Get('choose')
  @Render('choose')
  choose(@CurrentEvent() eventId: string, @CurrentExhibitors() choices: readonly Booth[]) {
    return { event: describeEvent(this.options.events, eventId), choices };
  }

  @Post('select')
  @Redirect('/', 303)
  async select(
    @CurrentEvent() eventId: string,
    @Body('exhibitorId') exhibitorId: unknown,
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
  ) {
    await this.selection.select({ request, response }, String(exhibitorId ?? ''));
    return { url: `/events/${encodeURIComponent(eventId)}/mine` };
  }
}
