/** Hosts under test in their own processes. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseEnv, promisify } from 'node:util';
import { expect } from '@jest/globals';
import type { ExhibitorSandbox, TenantOptionsOverrides } from '../../lib/testing/index.js';
import { readPage } from '../structure/readme.js';
import { freePort } from '../support/server.js';
import { formFields, Visitor } from '../support/visitor.js';
import type { Outside } from './tarball.js';
import { publicPemOf } from '../support/sandbox.js';

/** Environment of the host of the README, for a tenant of the sandbox. */
export function environment(
  sandbox: ExhibitorSandbox,
  key: string,
  overrides: TenantOptionsOverrides,
  port: number,
): NodeJS.ProcessEnv {
  const tenant = sandbox.tenantOptions(key, overrides);
  const { login } = tenant;
  return {
    PORT: String(port),
    TENANT_ID: tenant.tenantId,
    BASE_URL: tenant.baseUrl,
    AUTH_URL: tenant.authUrl,
    API_CLIENT_ID: tenant.clientId,
    API_CLIENT_SECRET: tenant.clientSecret,
    LOGIN_CLIENT_ID: login.clientId,
    LOGIN_CLIENT_SECRET: login.clientSecret,
    REDIRECT_URI: login.redirectUri,
    ISSUER: login.issuer,
    IDP_PUBLIC_KEY: publicPemOf(sandbox),
    COOKIE_SECRET: 'a cookie secret of 32 characters or more',
    TENANT: JSON.stringify(tenant),
  };
}

/** `nestjs-exhibitor sandbox` in a process of its own. */
export interface SandboxCommand {
  readonly bin: string;
  readonly url: string;
  /** The environment that it prints. */
  readonly env: NodeJS.ProcessEnv;
  /** Sends SIGTERM and resolves with the exit code. */
  stop(): Promise<number | null>;
}

/**
 * Runs the command that an install has linked.
 *
 * @throws Error with its exit code and output, where it ends at once.
 */
export async function startSandboxCommand(
  bin: string,
  cwd: string,
  ...args: string[]
): Promise<SandboxCommand> {
  const { PATH, HOME } = process.env;
  const child = spawn(bin, ['sandbox', '--port', '0', ...args], { cwd, env: { PATH, HOME }, stdio: 'pipe' });
  const ended = once(child, 'close');
  let text = '';
  child.stderr.on('data', (chunk) => (text += String(chunk)));
  child.stdout.on('data', (chunk) => (text += String(chunk)));
  while (!/(COOKIE_SECRET=|Saved to ).+\n/.test(text)) {
    if (child.exitCode !== null) {
      await ended;
      throw new Error(`exit code ${child.exitCode}: ${text}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const env = parseEnv(text.slice(text.indexOf('TENANT_ID=')));
  return {
    bin,
    url: String(/http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0]),
    env,
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = (await ended) as [number | null];
      return code;
    },
  };
}

/** Asks a running command for tokens and its page, and ends it by SIGTERM. */
export async function useSandboxCommand({ bin, url, env, stop }: SandboxCommand): Promise<void> {
  const reply = await fetch(`${url}/connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: String(env['API_CLIENT_ID']),
      client_secret: String(env['API_CLIENT_SECRET']),
    }),
  });
  expect(await reply.json()).toMatchObject({ access_token: expect.any(String) });
  expect(await (await fetch(`${url}/sandbox`)).text()).toContain('grant_type=client_credentials');
  const args = ['sandbox', '--port', new URL(url).port, '--print-token', 'sam.several@example.com'];
  const { stdout } = await promisify(execFile)(bin, args);
  expect(stdout).toMatch(/^eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+\n$/);
  expect(await stop()).toBe(143);
}

/** Waits until a host answers; throws its output where it exits. */
export async function isUp(url: string, process: ChildProcess): Promise<void> {
  const said: string[] = [];
  process.stdout?.on('data', (chunk) => said.push(String(chunk)));
  process.stderr?.on('data', (chunk) => said.push(String(chunk)));
  for (let attempt = 0; attempt < 600; attempt++) {
    if (process.exitCode !== null) {
      throw new Error(`the host ended:\n${said.join('')}`);
    }
    try {
      await fetch(url);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  throw new Error(`the host does not answer:\n${said.join('')}`);
}

/** Logs in, and answers the browser and the page with the own exhibitors. */
export async function logInAt(
  sandbox: ExhibitorSandbox,
  url: string,
  host: ChildProcess,
): Promise<{ visitor: Visitor; mine: string }> {
  await isUp(url, host);
  sandbox.signInAs('sam.several@example.com');
  const visitor = new Visitor();
  const done = (next: URL): boolean => next.href === `${url}/events/world-2026/mine`;
  const login = `${url}/auth/login?eventId=world-2026&returnTo=/events/world-2026/mine`;
  let reply = await visitor.follow(login, done);
  if (reply.text.includes('<form')) {
    const { action, fields } = formFields(reply.text);
    reply = { ...(await visitor.visit(action, { form: fields })), url: action };
  }
  expect(reply.status).toBe(303);
  const mine = await visitor.visit(`${url}/events/world-2026/mine`);
  expect([mine.status, JSON.parse(mine.text)]).toEqual([200, expect.arrayContaining([expect.any(Object)])]);
  expect(JSON.parse(mine.text)).toHaveLength(3);
  return { visitor, mine: mine.text };
}

/** Ends a host by SIGTERM. */
export async function endHost(host: ChildProcess): Promise<void> {
  host.kill('SIGTERM');
  await once(host, 'exit');
}

/**
 * Logs in, reads the own exhibitors and the list, then ends the host.
 *
 * @param mayEnd what to wait for before the end
 */
export async function useHost(
  sandbox: ExhibitorSandbox,
  url: string,
  host: ChildProcess,
  mayEnd?: () => Promise<unknown>,
): Promise<void> {
  const { visitor } = await logInAt(sandbox, url, host);
  const page = await visitor.visit(`${url}/events/world-2026/exhibitors`);
  expect(JSON.parse(page.text)).toMatchObject({ paginationMetadata: { totalCount: 1234 } });
  await mayEnd?.();
  await endHost(host);
}

/**
 * Starts `nestjs-exhibitor sandbox` and `dist/main.js` with the env file that it writes, as the README tells. A person logs in
 * as docs/sandbox.md says.
 */
export async function logInByTheCommand(outside: Outside): Promise<void> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const bin = join(outside.folder, 'node_modules/.bin/nestjs-exhibitor');
  const options = ['--redirect-uri', `${url}/auth/callback`, '--write-env', 'host.env'];
  const command = await startSandboxCommand(bin, outside.folder, ...options);
  const env = { PATH: process.env['PATH'] };
  const args = ['--env-file=host.env', 'dist/main.js'];
  const child = spawn(process.execPath, args, { cwd: outside.folder, env });
  try {
    await isUp(url, child);
    const home = await (await fetch(url)).text();
    expect(home).toContain('href="/auth/login?returnTo=/events/world-2026/mine"');
    const [, script = ''] = /```sh\n(page=[\s\S]*?)```/.exec(readPage('docs/sandbox.md')) ?? [];
    const mine = await outside.run('sh', ['-c', script.replaceAll('http://127.0.0.1:3000', url)]);
    expect(JSON.parse(mine)).toHaveLength(3);
  } finally {
    child.kill('SIGKILL');
    expect(await command.stop()).toBe(143);
  }
}
