import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { parseUrl } from '../../model/urls.js';
import { ExhibitorSandbox } from './exhibitor-sandbox.js';
import { parseSeed } from './seed/seed.js';

const REDIRECT_URIS = ['http://127.0.0.1:3000/auth/callback', 'http://localhost:3000/auth/callback'];
const NPX = 'npx -p nestjs-exhibitor -p oidc-provider nestjs-exhibitor sandbox';

export const help = `Usage: nestjs-exhibitor sandbox [options]

Starts a copy of the Exhibitor Event REST Service and its identity provider on 127.0.0.1, for development only: its
secrets are public. It prints the tenants, events, people and the environment of the host in the README. The page
/sandbox shows the requests that it receives, and how to add faults. SIGINT and SIGTERM end it.

Options:
  --port PORT         Port, 0 for any free one. Default 4010.
  --redirect-uri URL  Where a login may end; can be repeated. The provider refuses all others.
                      Default ${REDIRECT_URIS.join(' and ')}.
  --seed FILE         Tenants, events, people and exhibitors as JSON. What the file leaves out stays as it is.
  --latency MS        Delay of each reply of the REST API. Default 0.
  --tenant KEY        The tenant of the environment, by default the first. Can be repeated: the names of the variables
                      then begin with the key, as in ACME_TENANT_ID. Each --redirect-uri is that of the tenant at its
                      place, and the first that of tenants without one.
  --write-env FILE    Writes the environment to a new file, for node --env-file=FILE.

Instead of starting one:
  --print-token WHO   Prints an access token of a person (e-mail address or sub) of the sandbox that runs on --port, for
                      hosts with session: 'bearer'. Audience portal-api, client portal-app.

Requires the package oidc-provider 9. Without a project:
  ${NPX}`;

/** Runs a sandbox until SIGINT or SIGTERM. Resolves with 128 and the number of the signal, as in a shell. */
export async function run(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      port: { type: 'string', default: '4010' },
      'redirect-uri': { type: 'string', multiple: true },
      seed: { type: 'string' },
      latency: { type: 'string', default: '0' },
      tenant: { type: 'string', multiple: true },
      'write-env': { type: 'string' },
      'print-token': { type: 'string' },
    },
  });
  const port = wholeNumber('--port', values.port, 65_535);
  if (values['print-token'] !== undefined) {
    return printToken(port, values['print-token']);
  }
  const { seed: seedFile, 'write-env': envFile, 'redirect-uri': given } = values;
  const redirectUris = given ?? REDIRECT_URIS;
  const wrong = redirectUris.find((uri) => parseUrl(uri) === undefined || !/^https?:[^#]+$/.test(uri));
  if (wrong !== undefined) {
    throw new Error(`--redirect-uri must be an http or https URL without a fragment, not "${wrong}"`);
  }
  if (envFile !== undefined && existsSync(envFile)) {
    throw new Error(`${envFile} exists. Its values stay valid: leave out --write-env, or delete it.`);
  }
  const latency = wholeNumber('--latency', values.latency, 3_600_000);
  const seed = seedFile === undefined ? undefined : parseSeed(seedFile, await readFile(seedFile, 'utf8'));
  const sandbox = await ExhibitorSandbox.start({ port, seed, redirectUris });
  sandbox.latency = latency;
  try {
    const ended = new Promise<NodeJS.Signals>((resolve) => {
      process.once('SIGINT', resolve).once('SIGTERM', resolve);
    });
    const keys = values.tenant ?? sandbox.tenants.slice(0, 1).map(({ key }) => key);
    const environment = environmentOf(sandbox, keys, given ?? REDIRECT_URIS.slice(0, 1));
    if (envFile !== undefined) {
      await writeFile(envFile, `${environment}\n`, { flag: 'wx' });
    }
    console.log(introduction(sandbox, redirectUris, keys, environment, envFile));
    return 128 + constants.signals[await ended];
  } finally {
    await sandbox.stop();
  }
}

function wholeNumber(name: string, value: string, largest: number): number {
  if (!/^\d{1,9}$/.test(value) || Number(value) > largest) {
    throw new Error(`${name} must be a whole number from 0 to ${largest}, not "${value}"`);
  }
  return Number(value);
}

/** Asks a running sandbox for an access token. */
async function printToken(port: number, person: string): Promise<number> {
  const url = `http://127.0.0.1:${port}`;
  const reply = await fetch(`${url}/sandbox/token?person=${encodeURIComponent(person)}`).catch(() => {
    throw new Error(`no sandbox answers at ${url}: start it in another terminal, or name its --port`);
  });
  const text = await reply.text();
  if (!reply.ok) {
    throw new Error(`${url} answers ${reply.status}: ${text.slice(0, 300)}`);
  }
  console.log(text);
  return 0;
}

/** The environment of a host: with several tenants, the names of each begin with its key. A tenant without a URI has the first. */
function environmentOf(
  sandbox: ExhibitorSandbox,
  keys: readonly string[],
  redirectUris: readonly string[],
): string {
  const prefixOf = (key: string) => `${key.toUpperCase().replaceAll(/[^A-Z\d]+/g, '_')}_`;
  if (new Set(keys.map(prefixOf)).size < new Set(keys).size) {
    throw new Error(`the variables of two of these tenants would have the same names: ${keys.join(', ')}`);
  }
  const [first = ''] = redirectUris;
  const environments = keys.map((key, index) =>
    sandbox.environment(key, {
      redirectUri: redirectUris[index] ?? first,
      prefix: keys.length > 1 ? prefixOf(key) : '',
    }),
  );
  const { protocol, port } = new URL(first);
  // With https, a proxy in front of the host listens there.
  const listening = protocol === 'http:' ? { PORT: port || '80' } : {};
  const environment: Record<string, string> = Object.assign({}, ...environments, listening);
  return Object.entries(environment)
    .map(([name, value]) => `${name}=${quoted(value)}`)
    .join('\n');
}

/** Docker's reader of env files takes quotes as a part of the value: they are only where Node.js requires them. */
function quoted(value: string): string {
  const mark = /^[\w.:/@-]*$/.test(value) ? '' : (["'", '"', '`'].find((one) => !value.includes(one)) ?? '');
  return `${mark}${value}${mark}`;
}

/** Describes the sandbox to the person who started it. */
function introduction(
  { url, tenants, people, events }: ExhibitorSandbox,
  redirectUris: readonly string[],
  keys: readonly string[],
  environment: string,
  envFile: string | undefined,
): string {
  const start = (file: string) => `node --env-file=${file} dist/main.js`;
  return `Sandbox ready at ${url}, for development only. Its requests and faults: ${url}/sandbox

Tenants:  ${tenants.map((tenant) => tenant.key).join(', ')}. Their credentials: curl ${url}/sandbox/tenants
Events:   ${events.map(({ id }) => id).join(', ')}
People:   ${people.map(({ name, email }) => `${name} <${email ?? 'no e-mail address'}>`).join(', ')}
Access token of a person, for an API: curl '${url}/sandbox/token?person=${encodeURIComponent(people[0]?.sub ?? '')}'
Logins may end at ${redirectUris.join(' and ')}

Environment of the host in ${keys.length > 1 ? 'docs/tenants.md, for the tenants' : 'the README, for the tenant'} ${keys.join(' and ')}. ${
    envFile === undefined
      ? `Save it to .env and run: ${start('.env')}\n\n${environment}`
      : `Saved to ${envFile}. Run: ${start(envFile)}`
  }`;
}
