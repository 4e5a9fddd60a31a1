/** What a step of a guard may return. Compiled against the published declarations, under the strictest settings. */
import type { ExecutionContext } from '@nestjs/common';
import { expectTypeOf } from 'expect-type';
import {
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  type ExhibitorError,
  type ExhibitorIdentity,
  type HttpContext,
  type LoginParameters,
  type StartedLogin,
} from 'nestjs-exhibitor';

declare const machine: ExhibitorIdentity;

// What is missing, a promise of it, a page, or an error.
export class EverythingGuard extends ExhibitorGuard {
  protected override getTenant(http: HttpContext): string {
    expectTypeOf(http.context).toEqualTypeOf<ExecutionContext>();
    return http.context.getClass().name;
  }

  protected override async allowsAnonymous(http: HttpContext): Promise<boolean> {
    return http.request.method === 'HEAD' || (await super.allowsAnonymous(http));
  }

  protected override async getIdentity(
    http: HttpContext,
    tenant?: string,
  ): Promise<ExhibitorIdentity | undefined> {
    return (await super.getIdentity(http, tenant)) ?? machine;
  }

  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http);
  }

  protected override async onNoEvent(http: HttpContext, identity: ExhibitorIdentity): Promise<string> {
    return identity.eventId ?? this.redirect(http, '/events');
  }

  protected override getExhibitors(): readonly unknown[] {
    return [];
  }

  protected override async onNoExhibitor(
    http: HttpContext,
    _identity: ExhibitorIdentity,
    eventId: string,
  ): Promise<void> {
    return this.redirect(http, `/${eventId}/none`);
  }

  protected override onNotSelected(): void {}

  protected override onFailure(http: HttpContext, error: unknown): Promise<never> {
    return error instanceof RangeError ? this.redirect(http, '/oops') : Promise.reject(error);
  }
}

export class OwnIdentityGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(): ExhibitorIdentity {
    return machine;
  }
}

export class OwnLoginGuard extends ExhibitorLoginGuard {
  protected override getEvent({ request }: HttpContext): string | undefined {
    return request.params['fair'];
  }

  protected override getReturnTo(): undefined {}

  protected override async getLoginParameters(_http: HttpContext): Promise<LoginParameters> {
    return { prompt: 'login' };
  }
}

export class OwnCallbackGuard extends ExhibitorCallbackGuard {
  protected override async onLoggedIn(http: HttpContext, { subject }: ExhibitorIdentity): Promise<void> {
    return this.redirect(http, `/welcome/${subject}`);
  }

  protected override async onLoginFailed(http: HttpContext, error: ExhibitorError): Promise<void> {
    const started = await this.getStartedLogin(http);
    expectTypeOf(started).toEqualTypeOf<StartedLogin | undefined>();
    return this.redirect(http, `/failed?${error.code}`);
  }
}

export class OwnLogoutGuard extends ExhibitorLogoutGuard {
  protected override removeIdentity(http: HttpContext): void {
    http.request.session = null;
  }
}

export class ForgetfulGuard extends ExhibitorGuard {
  // @ts-expect-error -- the guard needs an identity
  protected override onNoIdentity(): void {}

  // @ts-expect-error -- the guard needs an event
  protected override async onNoEvent(http: HttpContext): Promise<void> {
    if (http.request.method === 'GET') {
      await this.redirect(http, '/events');
    }
  }

  // @ts-expect-error -- `request.user` of another kind is no identity
  protected override getIdentity(): { name: string } {
    return { name: 'olga' };
  }

  // @ts-expect-error -- it would let every request pass that fails
  protected override onFailure(): boolean {
    return true;
  }

  // @ts-expect-error -- Fastify's reply is thenable
  protected override async getRequest(): Promise<object> {
    return {};
  }
}
