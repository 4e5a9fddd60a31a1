import { Inject, Injectable } from '@nestjs/common';
import type { ExhibitorIdentity } from 'nestjs-exhibitor';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';

type Person = Pick<ExhibitorIdentity, 'tenant' | 'subject' | 'email'>;

/** Who has logged in since the start, and who may end logins. A real host has both in its database. */
@Injectable()
export class People {
  private readonly bySubject = new Map<string, Person>();

  constructor(@Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions) {}

  remember({ tenant, subject, email }: ExhibitorIdentity): void {
    this.bySubject.set(`${tenant} ${subject}`, { tenant, subject, email });
  }

  of(tenant: string): Person[] {
    return [...this.bySubject.values()].filter((person) => person.tenant === tenant);
  }

  isAdministrator(identity: ExhibitorIdentity | undefined): boolean {
    return identity !== undefined && this.options.administrators.includes(identity.email);
  }
}
