import { Controller, Get, Render, UseGuards, UseInterceptors } from '@nestjs/common';
import { CurrentExhibitor, CurrentExhibitors, ExhibitorGuard } from 'nestjs-exhibitor';
import { PageInterceptor } from '../pages/page.interceptor.js';
import type { Booth } from './booth.schema.js';

/** The exhibitor of the logged-in person at an event. */
@Controller(':tenant/events/:eventId/mine')
@UseGuards(ExhibitorGuard)
@UseInterceptors(PageInterceptor)
export class BoothController {
  @Get()
  @Render('booth')
  mine(@CurrentExhibitor() exhibitor: Booth, @CurrentExhibitors() choices: readonly Booth[]) {
    return { exhibitor, choices };
  }
}
