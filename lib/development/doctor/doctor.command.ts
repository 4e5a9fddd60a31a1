import { parseArgs } from 'node:util';
import type { Finding } from './finding.js';
import { readTenant, TENANT_FLAGS, tenantHelp, variablesOf } from './tenant-flags.js';

export const help = `Usage: nestjs-exhibitor doctor [options]

Names the values from onboarding that are wrong. It sends about a dozen requests, and logs nobody in.

${tenantHelp('doctor')}

What to test with them:
  --event ID        The list of this event.
  --email ADDRESS   The lookup of this contact at the event.
  --start-url URL   The page where logins start: whether browsers send its cookies to the callback and back.
  --json            Prints each finding as a line of JSON.

Exit code: 0 nothing is wrong, 1 something is wrong, 2 the check could not run.`;

const text = { type: 'string' } as const;
const FLAGS = {
  ...TENANT_FLAGS,
  event: text,
  email: text,
  'start-url': text,
  json: { type: 'boolean' },
} as const;

/** Prints a line for each step. Resolves with the exit code. */
export async function run(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: FLAGS });
  const hints = { eventId: values.event, contactEmail: values.email, startUrl: values['start-url'] };
  const flags = { eventId: '--event', contactEmail: '--email', startUrl: '--start-url' };
  const sources = new Map([...Object.entries(flags), ...variablesOf(values)]);
  // --help does not need Nest, whose logger announces each application context.
  const { Logger } = await import('@nestjs/common');
  const { diagnoseModule } = await import('./diagnose.js');
  Logger.overrideLogger(false);
  let code = 0;
  for await (const finding of diagnoseModule(readTenant(values, 'doctor'), hints)) {
    console.log(values.json === true ? JSON.stringify(finding) : lineOf(finding, sources));
    code = finding.status === 'wrong' ? 1 : code;
  }
  return code;
}

/** @param sources what sets an option */
function lineOf(finding: Finding, sources: ReadonlyMap<string, string>): string {
  const { step, status, option, message, advice } = finding;
  const mark = status === 'wrong' ? 'WRONG' : status;
  const nameOf = (path: string): string => (sources.has(path) ? `${path} (${sources.get(path)})` : path);
  const options = option === undefined ? '' : `${option.split(', ').map(nameOf).join(', ')}: `;
  return `${mark.padEnd(8)}${step.padEnd(11)}${options}${[message, advice].filter(Boolean).join('. ')}`;
}
