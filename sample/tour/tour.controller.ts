import { Body, Controller, Get, Header, Inject, Post, Redirect, UseGuards } from '@nestjs/common';
import { ExhibitorsService } from 'nestjs-exhibitor';
import { SameOriginGuard } from '../same-origin.guard.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { FAULTS } from './faults.js';
import { Tour } from './tour.js';

@Controller('tour')
export class TourController {
  constructor(
    @Inject(Tour) private readonly tour: Tour,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
  ) {}

  /** For the script of the panel: a live list sends requests after its page was shown. */
  @Get('activity')
  @Header('Cache-Control', 'no-store')
  activity() {
    return this.tour.activity();
  }

  /** Adds a fault, and shows the page of the form again. */
  @Post('fault')
  @UseGuards(SameOriginGuard)
  @Redirect('/', 303)
  async fault(@Body('fault') fault: unknown, @Body('returnTo') returnTo: unknown) {
    const name = String(fault);
    await this.options.faults?.choose(name);
    if (name in FAULTS && name !== 'down') {
      // Else the page would come from the cache, without a request that meets the fault.
      await this.exhibitors.invalidateLookups();
    }
    return { url: /^\/\w[^\\]*$/.test(String(returnTo)) ? String(returnTo) : '/' };
  }
}
