import { Controller, Get, Module, Post, Redirect, UseGuards } from '@nestjs/common';
import {
  CurrentExhibitors,
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  ExhibitorsService,
  type Exhibitor,
  type ExhibitorIdentity,
  type TenantOptions,
} from 'nestjs-exhibitor';

/** As `nest new` of Nest 11 writes it: CommonJS, decorators, constructor injection by type. */
@Controller()
export class BoothController {
  constructor(private readonly exhibitors: ExhibitorsService) {}

  @Get('auth/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('auth/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  @Post('auth/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  formCallback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  @Post('auth/logout')
  @UseGuards(ExhibitorLogoutGuard)
  @Redirect('/', 303)
  logout(): void {}

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
      useFactory: () => ({
        tenant: JSON.parse(process.env['TENANT'] ?? '') as TenantOptions,
        secrets: ['a cookie secret of 32 characters or more'],
      }),
    }),
  ],
  controllers: [BoothController],
})
export class AppModule {}
