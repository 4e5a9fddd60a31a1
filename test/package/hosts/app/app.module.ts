import { readFileSync } from 'node:fs';
import { Controller, Get, Module, Param, Post, UseGuards } from '@nestjs/common';
import {
  CurrentExhibitors,
  CurrentIdentity,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorModule,
  ExhibitorsService,
  type Exhibitor,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type TenantOptions,
} from 'nestjs-exhibitor';

/** As `nest new` of Nest 11 writes it: CommonJS, decorators, constructor injection by type. */
@Controller()
export class BoothController {
  constructor(private readonly exhibitors: ExhibitorsService) {}

  @Get('me')
  @UseGuards(ExhibitorIdentityGuard)
  me(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { identity };
  }

  /** Time flies, for tests of what happens later. */
  @Post('clock/:ms')
  skip(@Param('ms') ms: string): void {
    const before = performance.now.bind(performance);
    performance.now = () => before() + Number(ms);
  }

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

/** One tenant, or a file of many that a login names in its query. */
function tenants(): ExhibitorModuleOptions {
  const file = process.env['TENANTS_FILE'];
  if (file === undefined) return { tenant: JSON.parse(process.env['TENANT'] ?? '') as TenantOptions };
  return {
    tenants: JSON.parse(readFileSync(file, 'utf8')) as Record<string, TenantOptions>,
    resolveTenant: ({ query }) => (typeof query['tenant'] === 'string' ? query['tenant'] : undefined),
  };
}

@Module({
  imports: [
    ExhibitorModule.forRootAsync({
      routes: 'auth',
      useFactory: () => ({ ...tenants(), secrets: ['a cookie secret of 32 characters or more'] }),
    }),
  ],
  controllers: [BoothController],
})
export class AppModule {}
