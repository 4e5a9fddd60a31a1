/** The guarded route as a host writes it without this package: its own session, and the exhibitors from a Map. */
import { Injectable, UnauthorizedException } from '@nestjs/common';
import secureSession from '@fastify/secure-session';
import expressSession from 'express-session';
import { getIronSession } from 'iron-session';

export const SECRET = 'a secret of the benchmark, of 32 characters or more';

const exhibitors = new Map([
  ['bench-2026:ada.lovelace@example.com', [{ id: 'exhibitor-0' }, { id: 'exhibitor-1' }]],
]);

/** A guard over a function that answers the user of a request. */
function mapGuard(userOf) {
  class MapGuard {
    async canActivate(context) {
      const http = context.switchToHttp();
      const request = http.getRequest();
      const user = await userOf(request, http.getResponse());
      const mine = exhibitors.get(`${request.params.eventId}:${user?.email}`);
      if (mine === undefined || user.expiresAt <= Date.now()) {
        throw new UnauthorizedException();
      }
      request.user = user;
      request.exhibitors = mine;
      return true;
    }
  }
  Injectable()(MapGuard);
  return MapGuard;
}

const ironSession = (request, response) =>
  getIronSession(request.raw ?? request, response.raw ?? response, {
    password: SECRET,
    cookieName: 'session',
    cookieOptions: { secure: false },
  });

export const peers = {
  'express-session': {
    prepare: (app) => app.use(expressSession({ secret: SECRET, resave: false, saveUninitialized: false })),
    login: (request, _response, user) => {
      request.session.user = user;
    },
    guard: mapGuard((request) => request.session.user),
  },
  '@fastify/secure-session': {
    prepare: (app) => app.register(secureSession, { key: Buffer.alloc(32, SECRET), cookie: { path: '/' } }),
    login: (request, _response, user) => request.session.set('user', user),
    guard: mapGuard((request) => request.session.get('user')),
  },
  'iron-session': {
    prepare: () => undefined,
    async login(request, response, user) {
      const session = await ironSession(request, response);
      session.user = user;
      await session.save();
      // Fastify does not send what was set on the raw response before its own headers.
      const cookie = (response.raw ?? response).getHeader('set-cookie');
      response.header('set-cookie', cookie);
    },
    guard: mapGuard(async (request, response) => (await ironSession(request, response)).user),
  },
};
