import { parseUrl } from '../options/option-schemas.js';
import type { Examination } from './examination.js';
import { HOST, ok, SERVICE, unknown, wrong, type Verdict } from './finding.interface.js';

/** Failures to resolve a name. */
const NAME_FAILURES = ['ENOTFOUND', 'EAI_AGAIN'];

/** The list endpoint. Its reply without a token proves the address. */
export function listUrl({ tenant, hints }: Examination): string {
  const eventId = encodeURIComponent(hints.eventId ?? 'nestjs-exhibitor-doctor');
  return `${tenant.baseUrl}/api/v1/exhibitor/event/${eventId}?Page=1&ItemsPerPage=1`;
}

/** Where a provider publishes its metadata (Discovery 1.0 §4). */
export function metadataUrl(issuer: string): string {
  return `${issuer.endsWith('/') ? issuer.slice(0, -1) : issuer}/.well-known/openid-configuration`;
}

/** Asks the service and the provider for the first time: their names resolve. */
export async function names(examination: Examination): Promise<Verdict> {
  const { tenant, first, unreached } = examination;
  const { issuer = '', discovery = false } = tenant.login ?? {};
  const urls = new Map([
    ['baseUrl', listUrl(examination)],
    ['authUrl', metadataUrl(tenant.authUrl)],
  ]);
  // It need not be an address (OIDC Core §2).
  if (parseUrl(issuer)?.protocol.startsWith('http') === true) {
    urls.set('login.issuer', metadataUrl(issuer));
  }
  for (const [option, url] of urls) {
    const isAsked = option === 'login.issuer' && url === urls.get('authUrl');
    const reply = (isAsked ? first.get('authUrl') : undefined) ?? (await examination.get(url));
    first.set(option, reply);
    const { origin } = new URL(url);
    if (reply.failure !== undefined && !unreached.has(origin)) {
      const step = NAME_FAILURES.includes(reply.failure) ? 'names' : 'tls';
      unreached.set(origin, { step, failure: reply.failure, options: [] });
    }
    if (option !== 'login.issuer' || discovery) {
      unreached.get(origin)?.options.push(option);
    }
  }
  return connections(examination, 'names', 'the names of the service and the provider resolve');
}

/** The connections, with certificates that Node trusts. */
export function tls(examination: Examination): Verdict {
  const { baseUrl, authUrl } = examination.tenant;
  const isPlain = [baseUrl, authUrl].every((url) => url.startsWith('http:'));
  const proved = isPlain
    ? 'plain http on this machine, without certificates'
    : 'their certificates are trusted';
  return connections(examination, 'tls', `the service and the provider answer; ${proved}`);
}

function connections({ unreached }: Examination, step: string, proved: string): Verdict {
  const all = [...unreached].filter(([, { options }]) => options.length > 0);
  const failed = all.filter(([, found]) => found.step === step);
  if (failed.length === 0) {
    return all.length === 0 ? ok(proved) : unknown('not all addresses gave a reply');
  }
  const message = failed.map(([origin, { failure }]) => `no connection to ${origin}: ${failure}`).join('; ');
  const options = failed.flatMap(([, found]) => found.options).join(', ');
  return wrong(
    options,
    message,
    `${SERVICE} If the address is right: may this host connect to it, and does Node trust its certificate (NODE_EXTRA_CA_CERTS)?`,
  );
}

/** The clock of this machine and that of the provider, which dates its tokens. */
export function clock({ tenant, first }: Examination): Verdict {
  const { headers = {}, receivedAt = 0 } = first.get('authUrl') ?? {};
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const ahead = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  if (Number.isNaN(ahead)) {
    return unknown('the provider sent no date');
  }
  const { clockTolerance = 30 } = tenant.login ?? {};
  const message = `this clock is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  return Math.abs(ahead) <= clockTolerance
    ? ok(`${message}; ${clockTolerance} s are accepted`)
    : wrong(
        'login.clockTolerance',
        message,
        `Set the clock of this host (NTP) rather than the option. ${HOST}`,
      );
}
