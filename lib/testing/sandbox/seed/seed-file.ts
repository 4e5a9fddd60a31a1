import * as v from 'valibot';
import { parseJson } from '../../json.js';
import { defaultSeed, seedExhibitors, type SandboxSeed } from './seed.js';

const text = v.string();
const maybeText = v.optional(text);

const tenant = v.strictObject({
  ...v.entriesFromList(['key', 'name', 'tenantId', 'clientId', 'clientSecret'], text),
  ...v.entriesFromList(['loginClientId', 'loginClientSecret', 'publicLoginClientId'], text),
  backChannelLogoutUri: maybeText,
});
const person = v.strictObject({
  sub: text,
  name: text,
  email: maybeText,
  emailVerified: v.optional(v.union([v.boolean(), v.picklist(['true', 'false'])])),
  emailOnlyInUserinfo: v.optional(v.boolean()),
});
const exhibitor = v.looseObject({ id: text, contactEmails: v.array(text) });

const seedFile = v.strictObject({
  tenants: v.exactOptional(v.pipe(v.array(tenant), v.minLength(1))),
  events: v.exactOptional(v.array(v.strictObject({ id: text, title: text }))),
  people: v.exactOptional(v.array(person)),
  exhibitors: v.exactOptional(v.record(text, v.record(text, v.array(exhibitor)))),
});

/**
 * Parses a seed file. What it leaves out is that of the default seed; without `exhibitors` they are generated.
 *
 * @throws Error that names the file, each wrong field, and what is expected there.
 */
export function parseSeed(file: string, json: string): SandboxSeed {
  const { exhibitors, ...given } = parseJson(seedFile, json, file);
  const seed = { ...defaultSeed(), ...given };
  return { ...seed, exhibitors: exhibitors ?? seedExhibitors(seed.tenants, seed.events) };
}
