import { parseArgs } from 'node:util';
import { HOST_VARIABLES } from '../bin/host-environment.js';
import { diagnose } from './diagnose.js';
import type { Finding } from './finding.interface.js';
import { readOptions } from './read-options.js';

export const help = `Usage: nestjs-exhibitor doctor [options]

Checks the values from onboarding against the service and the identity provider, and names those that are wrong. It sends at
most a dozen requests, and logs nobody in.

Where the values are:
  (default)         Environment variables: ${Object.values(HOST_VARIABLES).slice(0, 5).join(', ')},
                    ${Object.values(HOST_VARIABLES).slice(5).join(', ')}
  --env PREFIX_     What the names of these variables begin with.
  --config FILE     JSON with the options of a tenant, or those of the module.
  --options FILE    An ES module or a CommonJS module. Its default export is such options, or an async function that returns them.
  --tenant KEY      The tenant, where there are several.

What to test with them:
  --event ID        The list of this event.
  --email ADDRESS   The lookup of this contact at the event.
  --start-url URL   The page where logins start: whether browsers send its cookies to the callback and back.

  --json            Prints each finding as a line of JSON.

Exit code: 0 nothing is wrong, 1 something is wrong, 2 the check could not run.`;

/** Prints a line for each step. Resolves with the exit code. */
export async function run(args: string[]): Promise<number> {
  const text = { type: 'string' } as const;
  const options = {
    env: text,
    config: text,
    options: text,
    tenant: text,
    event: text,
    email: text,
    'start-url': text,
  };
  const { values } = parseArgs({ args, options: { ...options, json: { type: 'boolean' } } });
  const { event: eventId, email: contactEmail, 'start-url': startUrl } = values;
  let code = 0;
  for await (const finding of diagnose(await readOptions(values), { eventId, contactEmail, startUrl })) {
    console.log(values.json === true ? JSON.stringify(finding) : lineOf(finding));
    code = finding.status === 'wrong' ? 1 : code;
  }
  return code;
}

function lineOf({ step, status, option, message, advice }: Finding): string {
  const mark = status === 'wrong' ? 'WRONG' : status;
  const what = [option === undefined ? message : `${option}: ${message}`, advice].filter(Boolean).join('. ');
  return `${mark.padEnd(8)}${step.padEnd(10)}${what}`;
}
