/**
 * Packages that Node itself loads, once for all suites of a worker: Jest would load and compile them anew in each suite. In the place
 * of each, Jest loads a module of a few lines that hands on what the package exports.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
const CACHE = join(ROOT, 'node_modules/.cache/test-packages');

/**
 * What the package imports, what takes long to load, and all that import Nest or Passport: these keep metadata, loggers and
 * strategies for a whole process, so all must see one copy.
 */
const NATIVE = [
  '@fastify/cookie',
  '@fastify/passport',
  '@fastify/secure-session',
  '@fastify/session',
  '@nestjs/apollo',
  '@nestjs/axios',
  '@nestjs/bullmq',
  '@nestjs/common',
  '@nestjs/common/constants.js',
  '@nestjs/config',
  '@nestjs/core',
  '@nestjs/core/router/route-path-factory.js',
  '@nestjs/graphql',
  '@nestjs/microservices',
  '@nestjs/passport',
  '@nestjs/platform-express',
  '@nestjs/platform-fastify',
  '@nestjs/platform-socket.io',
  '@nestjs/platform-ws',
  '@nestjs/swagger',
  '@nestjs/terminus',
  '@nestjs/testing',
  '@nestjs/throttler',
  '@opentelemetry/api',
  '@opentelemetry/instrumentation-undici',
  '@opentelemetry/sdk-metrics',
  '@opentelemetry/sdk-trace-node',
  'axios',
  'bullmq',
  'class-validator',
  'cookie',
  'cookie-session',
  'express',
  'express-session',
  'fast-check',
  'helmet',
  'ioredis',
  'ioredis5',
  'jose',
  'lru-cache',
  'nestjs-cls',
  'nestjs-pino',
  'oidc-provider',
  'on-headers',
  'passport',
  'passport-local',
  'passport-openidconnect',
  'pg',
  'redis',
  'redis5',
  'reflect-metadata',
  'rxjs',
  'socket.io-client',
  'supertest',
  'undici',
  'valibot',
  'zod',
];

/** Entries of Jest's `moduleNameMapper`. */
export function nativePackages() {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'package-lock.json')));
  hash.update(readFileSync(fileURLToPath(import.meta.url)));
  const folder = join(CACHE, hash.digest('hex').slice(0, 16));
  if (!existsSync(folder)) {
    rmSync(CACHE, { recursive: true, force: true });
    const unfinished = `${folder}-${process.pid}`;
    NATIVE.forEach((name) => writeModule(unfinished, name));
    writeFileSync(`${unfinished}/package.json`, '{ "type": "module" }\n');
    renameSync(unfinished, folder);
  }
  return Object.fromEntries(NATIVE.map((name) => [`^${name}$`, `${folder}/${name}.js`]));
}

function writeModule(folder, name) {
  const all = createRequire(import.meta.url)(name);
  const names = Object.keys(all).filter((key) => key !== 'default' && /^[\w$]+$/.test(key));
  const byNumber = (form) => names.map((key, at) => form(key, `_${at}`)).join(', ');
  const file = `${folder}/${name}.js`;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(
    file,
    `const { createRequire } = process.getBuiltinModule('node:module');
const all = createRequire(import.meta.url)('${name}');
const { ${byNumber((key, variable) => `${key}: ${variable}`)} } = all;
export { ${byNumber((key, variable) => `${variable} as ${key}`)} };
export default ${all[Symbol.toStringTag] === 'Module' ? 'all.default' : 'all'};
`,
  );
}
