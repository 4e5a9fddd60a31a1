import { listPath } from '../exhibitors/pages/exhibitor-pages.service.js';
import { metadataUrl } from '../oidc/parse-metadata.js';
import { parseUrl } from '../options/option-schemas.js';
import type { Examination } from './examination.js';
import { allWrong, notTested, unknown, wrong } from './finding.js';

/** Codes of names that do not resolve. Other failures are those of a connection. */
const NAME_FAILURES = ['ENOTFOUND', 'EAI_AGAIN'];

/** The list endpoint. Its reply without a token proves the address. */
export function listUrl({ tenant, hints }: Examination): string {
  return tenant.baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

/** What is asked first, by the option with the address. */
export function firstUrls(examination: Examination): Map<string, string> {
  const { authUrl, login: { issuer = '' } = {} } = examination.tenant;
  const urls = new Map([
    ['baseUrl', listUrl(examination)],
    ['authUrl', metadataUrl(authUrl)],
  ]);
  // An issuer need not be an address (OIDC Core §2).
  return parseUrl(issuer)?.protocol.startsWith('http') ? urls.set('login.issuer', metadataUrl(issuer)) : urls;
}

/** The names of the service and the provider resolve. */
export async function names(examination: Examination): Promise<string> {
  const { unreached } = examination;
  for (const url of firstUrls(examination).values()) {
    const { origin } = new URL(url);
    const { failure } = unreached.has(origin) ? {} : await examination.first(url);
    if (failure !== undefined) {
      unreached.set(origin, failure);
    }
  }
  refuse(examination, (failure) => NAME_FAILURES.includes(failure));
  return 'the names of the service and the provider resolve';
}

/** They answer, with certificates that Node trusts. */
export function tls(examination: Examination): string {
  refuse(examination, (failure) => !NAME_FAILURES.includes(failure));
  if (examination.findings.some(({ status }) => status === 'wrong')) {
    throw notTested("the step 'names' failed");
  }
  return 'the service and the provider answer; Node trusts the certificates of https addresses';
}

/** @throws {Unproved} with the options whose address has no connection for such a reason */
function refuse(examination: Examination, isReason: (failure: string) => boolean): void {
  const isRead = examination.tenant.login?.discovery === true;
  const found = [...firstUrls(examination)].flatMap(([option, url]): [string, string][] => {
    const { origin } = new URL(url);
    const failure = examination.unreached.get(origin);
    const isIts = failure !== undefined && isReason(failure) && (option !== 'login.issuer' || isRead);
    return isIts ? [[option, `no connection to ${origin}: ${failure}`]] : [];
  });
  if (found.length > 0) {
    throw allWrong(found);
  }
}

/** The clock of this machine and that of the provider, which dates its tokens. */
export async function clock(examination: Examination): Promise<string> {
  const { authUrl, login: { clockTolerance = 30 } = {} } = examination.tenant;
  const { headers, receivedAt } = await examination.first(metadataUrl(authUrl));
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const ahead = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  if (!Number.isFinite(ahead)) {
    throw unknown('no reply of the provider has a date');
  }
  const message = `the clock of this host is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  if (Math.abs(ahead) > clockTolerance) {
    throw wrong('login.clockTolerance', message, 'Set the clock of this host (NTP) rather than the option.');
  }
  return `${message}; logins accept ${clockTolerance} s`;
}
