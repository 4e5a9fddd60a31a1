import {
  Body,
  Controller,
  Get,
  Inject,
  Post,
  Redirect,
  Render,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { CurrentTenant, ExhibitorIdentityGuard, ExhibitorLogins } from 'nestjs-exhibitor';
import { PageInterceptor } from '../pages/page.interceptor.js';
import { SameOriginGuard } from '../same-origin.guard.js';
import { AdministratorGuard } from './administrator.guard.js';
import { People } from './people.js';

/** Where an administrator ends all logins of a user: of a stolen account, or of somebody who left. */
@Controller(':tenant/people')
@UseGuards(ExhibitorIdentityGuard, AdministratorGuard)
@UseInterceptors(PageInterceptor)
export class PeopleController {
  constructor(
    @Inject(People) private readonly people: People,
    @Inject(ExhibitorLogins) private readonly logins: ExhibitorLogins,
  ) {}

  @Get()
  @Render('people')
  list(@CurrentTenant() tenant: string) {
    return { people: this.people.of(tenant) };
  }

  @Post('end-logins')
  @UseGuards(SameOriginGuard)
  @Redirect('/', 303)
  async endLogins(@CurrentTenant() tenant: string, @Body('subject') subject: unknown) {
    await this.logins.end({ tenant, subject: String(subject ?? '') });
    return { url: `/${tenant}/people` };
  }
}
