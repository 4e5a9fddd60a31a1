import { Controller, Get, Module, UseGuards } from '@nestjs/common';
import {
  CurrentExhibitors,
  ExhibitorGuard,
  ExhibitorModule,
  exhibitorOptionsFrom,
  ExhibitorsService,
  type Exhibitor,
  type LoginOptions,
} from 'nestjs-exhibitor';

/** As `nest new` of Nest 11 writes it: CommonJS, decorators, constructor injection by type. */
@Controller()
export class BoothController {
  constructor(private readonly exhibitors: ExhibitorsService) {}

  @Get('events/:eventId/mine')
  @UseGuards(ExhibitorGuard)
  mine(@CurrentExhibitors() exhibitors: Exhibitor[]) {
    return exhibitors;
  }

  @Get('events/:eventId/exhibitors')
  page() {
    return this.exhibitors.list('world-2026');
  }
}

@Module({
  imports: [
    ExhibitorModule.forRootAsync({
      routes: 'auth',
      useFactory: () => {
        const { tenant, secrets } = exhibitorOptionsFrom(process.env);
        const responseType = process.env['RESPONSE_TYPE'] as LoginOptions['responseType'];
        return { tenant: { ...tenant, login: { ...tenant.login, responseType } }, secrets };
      },
    }),
  ],
  controllers: [BoothController],
})
export class AppModule {}
