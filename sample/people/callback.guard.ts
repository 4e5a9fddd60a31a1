import { Inject, Injectable } from '@nestjs/common';
import {
  ExhibitorCallbackGuard,
  ExhibitorGuardServices,
  type ExhibitorIdentity,
  type HttpContext,
} from 'nestjs-exhibitor';
import { People } from './people.js';

/** Remembers who logs in. */
@Injectable()
export class CallbackGuard extends ExhibitorCallbackGuard {
  constructor(
    @Inject(ExhibitorGuardServices) services: ExhibitorGuardServices,
    @Inject(People) private readonly people: People,
  ) {
    super(services);
  }

  protected override onLoggedIn(_http: HttpContext, identity: ExhibitorIdentity): void {
    this.people.remember(identity);
  }
}
