import { CommandError } from '../bin/command.error.js';

export const help = `Usage: nestjs-exhibitor doctor [options]

Checks the values from onboarding against the service and the identity provider, and names those that are wrong.

Options:
  --config FILE     Options of a tenant, as JSON.
  --options FILE    A module that exports the options of ExhibitorModule.
  --tenant KEY      The tenant of these options.
  --env PREFIX_     Without both, the options come from the environment. Their names begin with this prefix.
  --event ID        An event to list.
  --email ADDRESS   A contact to look up at this event.
  --start-url URL   The page where logins start.
  --json            Prints the findings as JSON.

Exit code: 0 nothing is wrong, 1 something is wrong, 2 the check could not run.`;

export async function run(_args: string[]): Promise<number> {
  // Not built yet: the command is listed so that its place in the dispatcher is fixed.
  throw new CommandError('this command is not available in this version');
}
