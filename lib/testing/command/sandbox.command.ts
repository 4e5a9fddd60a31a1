import { CommandError } from '../../bin/command.error.js';

export const help = `Usage: nestjs-exhibitor sandbox [options]

Starts a copy of the Exhibitor Event REST Service and its identity provider on 127.0.0.1, for development only: its
secrets are public. It prints the tenants, events, people and the environment of the host in the README. The page
/sandbox shows the requests that it receives, and adds faults. SIGINT and SIGTERM end it.

Options:
  --port PORT         Port, 0 for any free one. Default 4010.
  --redirect-uri URL  Where a login may end; can be repeated. The provider refuses all others.
                      Default http://127.0.0.1:3000/auth/callback and http://localhost:3000/auth/callback.
  --seed FILE         Tenants, events, people and exhibitors as JSON. What the file leaves out stays as it is.
  --latency MS        Delay of each reply of the REST API. Default 0.
  --write-env FILE    Writes the environment to a new file, for node --env-file=FILE.

Requires the package oidc-provider 9, which it looks for in the working directory first. Without a project:
  npx -p nestjs-exhibitor -p oidc-provider nestjs-exhibitor sandbox`;

/**
 * Not built yet. It is listed so that its place in the dispatcher is fixed.
 *
 * @throws CommandError always.
 */
export async function run(_args: string[]): Promise<number> {
  throw new CommandError('this command is not available in this version');
}
