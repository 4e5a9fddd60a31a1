/** Hosts and commands under test in their own processes. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { parseEnv, promisify } from 'node:util';
import { afterEach, expect } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { freePort } from '../support/server.js';
import { formFields, Visitor } from '../support/visitor.js';
import { eventually } from '../support/wait.js';
import type { Outside } from './tarball.js';

const running: ChildProcess[] = [];
afterEach(() => running.splice(0).forEach((child) => child.kill('SIGKILL')));

/** A host in a process of its own, which ends with the test. */
export class HostProcess {
  /** What it has printed. */
  said = '';
  private constructor(
    readonly url: string,
    readonly child: ChildProcess,
  ) {
    running.push(child);
    child.stdout?.on('data', (chunk) => (this.said += String(chunk)));
    child.stderr?.on('data', (chunk) => (this.said += String(chunk)));
  }

  /**
   * Starts a script of a host on a free port. Resolves when it answers.
   *
   * @param env answers the environment of a host at this address
   */
  static async start(
    host: Outside,
    script: readonly string[],
    env: (url: string) => NodeJS.ProcessEnv | Promise<NodeJS.ProcessEnv>,
  ): Promise<HostProcess> {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const started = new HostProcess(url, host.start(script, { ...(await env(url)), PORT: String(port) }));
    const { child } = started;
    const answers = (): Promise<boolean> =>
      fetch(url).then(
        () => true,
        () => false,
      );
    await eventually(async () => child.exitCode !== null || (await answers()), 60_000).catch(() => undefined);
    if (child.exitCode !== null || !(await answers())) {
      throw new Error(`the host does not answer:\n${started.said}`);
    }
    return started;
  }

  /** Ends it by SIGTERM. */
  async end(): Promise<void> {
    this.child.kill('SIGTERM');
    await once(this.child, 'exit');
  }
}

/** Environment of the host of the README at an address, for a tenant of the sandbox. */
export function environment(sandbox: ExhibitorSandbox, key: string, url: string): NodeJS.ProcessEnv {
  return sandbox.environment(key, { redirectUri: `${url}/auth/callback` });
}

/** Logs in at the host of `hosts/app`, reads the own exhibitors and the list. */
export async function useHost(sandbox: ExhibitorSandbox, { url }: HostProcess): Promise<void> {
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
  expect(mine.status).toBe(200);
  expect(JSON.parse(mine.text)).toHaveLength(3);
  const page = await visitor.visit(`${url}/events/world-2026/exhibitors`);
  expect(JSON.parse(page.text)).toMatchObject({ paginationMetadata: { totalCount: 1234 } });
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

/** Runs the command that an install has linked. */
export async function startSandboxCommand(
  bin: string,
  cwd: string,
  ...args: string[]
): Promise<SandboxCommand> {
  const { PATH, HOME } = process.env;
  const child = spawn(bin, ['sandbox', '--port', '0', ...args], { cwd, env: { PATH, HOME }, stdio: 'pipe' });
  running.push(child);
  const ended = once(child, 'close');
  let text = '';
  child.stderr.on('data', (chunk) => (text += String(chunk)));
  child.stdout.on('data', (chunk) => (text += String(chunk)));
  const isReady = (): boolean => /(COOKIE_SECRET=|Saved to ).+\n/.test(text);
  await eventually(() => isReady() || child.exitCode !== null, 60_000);
  if (!isReady()) {
    throw new Error(`exit code ${child.exitCode}: ${text}`);
  }
  return {
    bin,
    url: String(/http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0]),
    env: parseEnv(text.slice(text.indexOf('TENANT_ID='))),
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
