import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Module,
  Req,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { extendRequests, foundMemoryOf, isExtended, memoryOf } from '../../lib/guards/request-memory.js';
import { CurrentEvent, ExhibitorGuard, ExhibitorModule, type ExhibitorRequest } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, createApp, type HostKind } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';

@Injectable()
class HostGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ exhibitorContext: object }>();
    request.exhibitorContext = { ...request.exhibitorContext, eventId: 'of-the-host' };
    return true;
  }
}

@Controller()
class MembersController {
  @Get('members/:eventId')
  @UseGuards(ExhibitorGuard)
  members(@Req() request: ExhibitorRequest): object {
    const { exhibitors, exhibitorContext } = request;
    return {
      count: exhibitors?.length,
      same: exhibitors === exhibitorContext?.exhibitors,
      eventId: exhibitorContext?.eventId,
      own: Object.keys(request).filter((name) => name.startsWith('exhibitor')),
    };
  }

  @Get('unguarded')
  unguarded(@Req() { exhibitors, exhibitorContext }: ExhibitorRequest): unknown[] {
    return [exhibitors ?? null, exhibitorContext ?? null];
  }

  @Get('replaced/:eventId')
  @UseGuards(ExhibitorGuard, HostGuard)
  replaced(@CurrentEvent() eventId: string, @Req() { exhibitorContext }: ExhibitorRequest): string[] {
    return [eventId, String(exhibitorContext?.eventId)];
  }

  @Get('guarded-again/:eventId')
  @UseGuards(ExhibitorGuard, HostGuard, ExhibitorGuard)
  guardedAgain(@CurrentEvent() eventId: string, @Req() { exhibitorContext }: ExhibitorRequest): string[] {
    return [eventId, String(exhibitorContext?.eventId)];
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

function hostModule(): Type {
  const redirectUri = 'http://127.0.0.1/auth/callback';
  const tenant = sandbox.tenantOptions('acme', { redirectUri });

  @Module({
    imports: [ExhibitorModule.forRoot({ tenant, session: 'host', secrets: [COOKIE_SECRET] })],
    controllers: [MembersController],
  })
  class AppModule {}

  return AppModule;
}

/** A host, not listening yet, at which somebody is logged in. */
async function createHost(kind: HostKind): Promise<INestApplication> {
  const app = await createApp(kind, hostModule());
  const setUser = (request: { user?: unknown }): void => {
    request.user = {
      issuer: sandbox.url,
      subject: 'sam.several',
      email: 'sam.several@example.com',
      tenant: 'default',
    };
  };
  if (kind === 'fastify') {
    const fastify = app.getHttpAdapter().getInstance();
    fastify.addHook('preHandler', async (request: { user?: unknown }) => setUser(request));
  } else {
    app.use((request: { user?: unknown }, _: unknown, next: () => void) => {
      setUser(request);
      next();
    });
  }
  return app;
}

async function get(app: INestApplication, path: string): Promise<unknown> {
  const reply = await fetch(`${await app.getUrl()}${path}`);
  return reply.json();
}

const MEMBERS = { count: 3, same: true, eventId: 'world-2026' };

describe.each(['express', 'fastify'] as const)('the members of a request on %s', (kind) => {
  let app: INestApplication;
  beforeAll(async () => {
    app = await createHost(kind);
    await app.listen(0, '127.0.0.1');
  });
  afterAll(() => app?.close());

  it('are set by the guard', async () => {
    expect(await get(app, '/members/world-2026')).toMatchObject(MEMBERS);
  });

  it('are undefined without a guard', async () => {
    expect(await get(app, '/unguarded')).toEqual([null, null]);
  });

  it('may be replaced by the host, and by another guard of ours again', async () => {
    expect(await get(app, '/replaced/world-2026')).toEqual(['of-the-host', 'of-the-host']);
    expect(await get(app, '/guarded-again/world-2026')).toEqual(['world-2026', 'world-2026']);
  });
});

describe('on Express', () => {
  it('the guard adds none of them to the request itself, since that takes long', async () => {
    const app = await createHost('express');
    await app.listen(0, '127.0.0.1');
    expect(await get(app, '/members/world-2026')).toEqual({ ...MEMBERS, own: [] });
    await app.close();
  });

  it.each([
    ['before it is ready', true],
    ['once it is ready', false],
  ])('a host that another one mounts %s serves alike', async (_, isMountedFirst) => {
    const [outer, inner] = [await createHost('express'), await createHost('express')];
    if (!isMountedFirst) {
      await inner.init();
    }
    outer.use('/inner', inner.getHttpAdapter().getInstance());
    await outer.init();
    await inner.init();
    await outer.listen(0, '127.0.0.1');
    expect(await get(outer, '/inner/members/world-2026')).toMatchObject(MEMBERS);
    expect(await get(outer, '/inner/replaced/world-2026')).toEqual(['of-the-host', 'of-the-host']);
    expect(await get(outer, '/members/world-2026')).toMatchObject(MEMBERS);
    await Promise.all([outer.close(), inner.close()]);
  });
});

describe('the memory of a request whose application was extended', () => {
  function extendedPrototype(): object {
    const prototype = {};
    extendRequests(prototype);
    return prototype;
  }
  const requestOf = (prototype: object, rawHeaders?: unknown): ExhibitorRequest =>
    Object.assign(Object.create(prototype), rawHeaders === undefined ? {} : { rawHeaders });

  it('is not shared with a second request of the same headers', () => {
    const prototype = extendedPrototype();
    const rawHeaders = ['Cookie', 'a=b'];
    const [first, second] = [requestOf(prototype, rawHeaders), requestOf(prototype, rawHeaders)];
    first.exhibitors = ['of the first'];
    expect(foundMemoryOf(second)).toBeUndefined();
    expect(second.exhibitors).toBeUndefined();
    second.exhibitors = ['of the second'];
    expect([first.exhibitors, second.exhibitors]).toEqual([['of the first'], ['of the second']]);
    expect(memoryOf(first)).toBe(memoryOf(first));
    expect(memoryOf(second)).toBe(memoryOf(second));
    expect(memoryOf(first)).not.toBe(memoryOf(second));
  });

  it('is at the request itself where that has no list of headers', () => {
    const request = requestOf(extendedPrototype());
    request.exhibitors = ['one'];
    expect(request.exhibitors).toEqual(['one']);
  });

  it('is not copied to a request that was made from it', () => {
    const first = requestOf(extendedPrototype(), []);
    first.exhibitors = ['of the first'];
    expect(Object.assign(Object.create(first), {}).exhibitors).toBeUndefined();
    expect({ ...first }).not.toHaveProperty('exhibitors');
  });

  it('leaves a member that the host has on all its requests', () => {
    const prototype = { exhibitorContext: 'of the host' };
    extendRequests(prototype);
    expect(prototype).toEqual({ exhibitorContext: 'of the host' });
    expect(isExtended(requestOf(prototype))).toBe(false);
  });
});
