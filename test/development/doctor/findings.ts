import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from '@jest/globals';
import { diagnose, type DiagnosisHints, type Finding } from '../../../lib/development/doctor/index.js';
import type { TenantOptions } from '../../../lib/index.js';

export const STEPS =
  'options connection clock token tenant list lookup metadata keys authorize login cookies'.split(' ');

/** Values by the paths of their options. */
export type Values = Readonly<Record<string, unknown>>;

/** These options, with values in place of the right ones. */
export function withValues(right: TenantOptions, values: Values): TenantOptions {
  const options: Record<string, unknown> = { ...right };
  for (const [path, value] of Object.entries(values)) {
    const [name = '', inner] = path.split('.');
    options[name] = inner === undefined ? value : { ...Object(options[name]), [inner]: value };
  }
  return options as unknown as TenantOptions;
}

/** All findings: one for each step, from at most a dozen requests, one at a time, and without anything confidential. */
export async function findingsOf(options: TenantOptions, hints: DiagnosisHints = {}): Promise<Finding[]> {
  let [sent, open, most] = [0, 0, 0];
  const onStart = (): void => {
    sent += 1;
    open += 1;
    most = Math.max(most, open);
  };
  const onEnd = (): void => void (open -= 1);
  subscribe('undici:request:create', onStart);
  subscribe('undici:request:trailers', onEnd);
  subscribe('undici:request:error', onEnd);
  const findings: Finding[] = [];
  for await (const finding of diagnose(options, hints)) {
    findings.push(finding);
  }
  unsubscribe('undici:request:create', onStart);
  unsubscribe('undici:request:trailers', onEnd);
  unsubscribe('undici:request:error', onEnd);
  expect(findings.map(({ step }) => step)).toEqual(STEPS);
  expect({ dozen: sent <= 12, most: most <= 1 }).toEqual({ dozen: true, most: true });
  const text = JSON.stringify(findings);
  const secrets = [options.clientSecret, Object(options.login)['clientSecret'], hints.contactEmail, 'eyJ'];
  expect(secrets.filter((one) => typeof one === 'string' && one !== '' && text.includes(one))).toEqual([]);
  return findings;
}

/** The options that findings name. */
export function named(findings: readonly Finding[]): string {
  const wrong = findings.filter(({ status }) => status === 'wrong');
  expect(wrong.every(({ option, advice }) => option !== undefined && advice !== undefined)).toBe(true);
  return [...new Set(wrong.flatMap(({ option = '' }) => option.split(', ')))].toSorted().join(' ');
}

/** The finding of a step. */
export function stepOf(findings: readonly Finding[], step: string): Finding | undefined {
  return findings.find((finding) => finding.step === step);
}

/** The steps that are wrong or unknown. */
export function notOk(findings: readonly Finding[]): string[] {
  return findings.flatMap(({ step, status }) => (status === 'ok' ? [] : [`${step} ${status}`]));
}
