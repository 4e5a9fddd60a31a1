/**
 * The ways of a guarded request, a login, `list()` and a token renewal: how many files of the module one of each passes, and how many
 * named functions it calls, by the coverage that V8 counts in this process. `npm run bench -- ways FILES` lists the files.
 */
import { Session } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { Controller, Get, UseGuards } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { ExhibitorGuard, ExhibitorModule, ExhibitorsService, TokenService } from '../../dist/index.js';
import { check, describeMachine, start } from './harness.mjs';

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url));
const EVENT = 'world-2026';

/** At most so many files and named calls. */
const CEILINGS = {
  'guarded request': [24, 85],
  'start of a login': [31, 250],
  callback: [56, 600],
  'list()': [21, 140],
  'token renewal': [26, 200],
};

class MineController {
  mine() {
    return { ok: true };
  }
}
const property = Object.getOwnPropertyDescriptor(MineController.prototype, 'mine');
for (const decorate of [Get('events/:eventId/mine'), UseGuards(ExhibitorGuard)]) {
  decorate(MineController.prototype, 'mine', property);
}
Controller()(MineController);

const origin = 'http://127.0.0.1:4971';
const sandbox = await start('ways-sandbox.mjs', [`${origin}/auth/callback`]);
const values = new Map();
/** A store in memory, as a renewal asks one. */
const store = {
  get: async (key) => values.get(key),
  set: async (key, value, { ifAbsent = false } = {}) =>
    !(ifAbsent && values.has(key)) && (values.set(key, value), true),
  delete: async (key) => void values.delete(key),
};

const module = ExhibitorModule.forRootAsync({
  isGlobal: true,
  routes: 'auth',
  useFactory: () => ({
    tenant: sandbox.ready,
    store,
    secrets: ['a secret of the benchmark, 32 characters'],
  }),
});
// The controller in the module of the package: it needs no other one.
const root = { ...module, controllers: [...(module.controllers ?? []), MineController] };
const app = await NestFactory.create(root, { logger: false });
await app.listen(4971, '127.0.0.1');

const cookies = new Map();
async function visit(url) {
  const isOwn = url.startsWith(origin);
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const headers = isOwn ? { cookie } : {};
  const reply = await fetch(url, { headers, redirect: 'manual' });
  await reply.text();
  for (const set of isOwn ? reply.headers.getSetCookie() : []) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
    cookies.set(name, value);
  }
  return reply;
}

/** From the login route to the address of the callback, through the pages of the provider. */
async function toCallback() {
  let { headers } = await visit(`${origin}/auth/login?eventId=${EVENT}`);
  const jar = new Map();
  for (let url = headers.get('location'); ;) {
    if (url.startsWith(`${origin}/auth/callback`)) {
      return url;
    }
    const reply = await fetch(url, {
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      redirect: 'manual',
    });
    await reply.text();
    for (const set of reply.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
      jar.set(name, value);
    }
    ({ headers } = reply);
    url = new URL(headers.get('location'), url).href;
  }
}

const session = new Session();
session.connect();
await session.post('Profiler.enable');

/** What is called while `work` runs. */
async function wayOf(work) {
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await work();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  await session.post('Profiler.stopPreciseCoverage');
  const own = result
    .filter(({ url }) => url.startsWith(`file://${DIST}`) && !url.includes('/dist/development/'))
    .map(({ url, functions }) => ({
      file: url.slice(`file://${DIST}`.length),
      calls: functions
        .filter(({ functionName }) => functionName !== '')
        .reduce((sum, { ranges: [range] }) => sum + range.count, 0),
    }))
    .filter(({ calls }) => calls > 0);
  return { files: own.map(({ file }) => file), calls: own.reduce((sum, { calls }) => sum + calls, 0) };
}

const exhibitors = app.get(ExhibitorsService);
const tokens = app.get(TokenService);
const expectStatus = async (reply, status) => {
  if ((await reply).status !== status) {
    throw new Error(`expected the status ${status}, received ${(await reply).status}`);
  }
};

// Warm: each way once.
await visit(await toCallback());
await visit(`${origin}/events/${EVENT}/mine`);
await firstValueFrom(exhibitors.list(EVENT));

let callback = await toCallback();
const ways = {
  'guarded request': () => expectStatus(visit(`${origin}/events/${EVENT}/mine`), 200),
  'start of a login': () => expectStatus(visit(`${origin}/auth/login?eventId=${EVENT}`), 302),
  callback: () => expectStatus(visit(callback), 303),
  // Of one record: some functions are called for each.
  'list()': () => firstValueFrom(exhibitors.list(EVENT, { itemsPerPage: 1 })),
  'token renewal': async () => {
    await tokens.invalidate();
    await tokens.getToken();
  },
};
console.log(`Ways of one call: files of the module, and calls of named functions (${describeMachine()})`);
for (const [name, work] of Object.entries(ways)) {
  const { files, calls } = await wayOf(work);
  const [mostFiles, mostCalls] = CEILINGS[name];
  const holds = files.length <= mostFiles && calls <= mostCalls;
  check(name, `${files.length} files, ${calls} calls; at most ${mostFiles}, ${mostCalls}`, holds);
  if (process.argv[3] !== undefined) {
    console.log(files.map((file) => `       ${file}`).join('\n'));
  }
}
session.disconnect();
await app.close();
await sandbox.stop();
