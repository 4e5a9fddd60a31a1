import { listPath } from '../exhibitors/pages/exhibitor-pages.service.js';
import { metadataUrl } from '../oidc/parse-metadata.js';
import { parseUrl } from '../options/option-schemas.js';
import { NotTested, stepOf, type Examination, type Reply } from './examination.js';
import { ok, unknown, wrong, wrongOr, type Verdict } from './finding.interface.js';

/** The list endpoint. Its reply without a token proves the address. */
export function listUrl({ tenant, hints }: Examination): string {
  return tenant.baseUrl + listPath(hints.eventId ?? 'nestjs-exhibitor-doctor', 1, 1);
}

/** What is asked first, by the option with the address. */
function firstRequests(examination: Examination): [option: string, url: string][] {
  const { authUrl, login } = examination.tenant;
  const all: [string, string][] = [
    ['baseUrl', listUrl(examination)],
    ['authUrl', metadataUrl(authUrl)],
  ];
  // An issuer need not be an address (OIDC Core §2).
  const isAddress = parseUrl(login?.issuer ?? '')?.protocol.startsWith('http') === true;
  return isAddress ? [...all, ['login.issuer', metadataUrl(login?.issuer ?? '')]] : all;
}

/** The first reply of the address in an option. */
export async function firstReply(examination: Examination, option: string): Promise<Reply | undefined> {
  const [, url] = firstRequests(examination).find(([name]) => name === option) ?? [];
  return url === undefined ? undefined : examination.first(url);
}

/** The names of the service and the provider resolve. */
export async function names(examination: Examination): Promise<Verdict> {
  for (const [, url] of firstRequests(examination)) {
    const { origin } = new URL(url);
    const { failure } = examination.unreached.has(origin) ? {} : await examination.first(url);
    if (failure !== undefined) {
      examination.unreached.set(origin, failure);
    }
  }
  return wrongOr('the names of the service and the provider resolve', unreached(examination, 'names'));
}

/** They answer, with certificates that Node trusts. */
export function tls(examination: Examination): Verdict {
  const found = unreached(examination, 'tls');
  if (found.length === 0 && unreached(examination, 'names').length > 0) {
    throw new NotTested("the step 'names' failed");
  }
  const isPlain = firstRequests(examination).every(([, url]) => url.startsWith('http:'));
  const how = isPlain ? 'over plain http on this machine' : 'with certificates that Node trusts';
  return wrongOr(`the service and the provider answer, ${how}`, found);
}

/** Options with an address that cannot be connected to. */
function unreached(examination: Examination, step: string): [option: string, message: string][] {
  const isRead = examination.tenant.login?.discovery === true;
  return firstRequests(examination).flatMap(([option, url]): [string, string][] => {
    const { origin } = new URL(url);
    const failure = examination.unreached.get(origin) ?? '';
    const isIts = failure !== '' && stepOf(failure) === step && (option !== 'login.issuer' || isRead);
    return isIts ? [[option, `no connection to ${origin}: ${failure}`]] : [];
  });
}

/** The clock of this machine and that of the provider, which dates its tokens. */
export async function clock(examination: Examination): Promise<Verdict> {
  const { authUrl, login } = examination.tenant;
  const { headers, receivedAt } = await examination.first(metadataUrl(authUrl));
  // A cache dates a reply when it was made (RFC 9111 §5.1).
  const ahead = Math.round((receivedAt - Date.parse(headers.date ?? '')) / 1000) - Number(headers.age ?? 0);
  if (!Number.isFinite(ahead)) {
    return unknown('the provider sent no date');
  }
  const { clockTolerance = 30 } = login ?? {};
  const message = `this clock is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead of'} that of the provider`;
  return Math.abs(ahead) <= clockTolerance
    ? ok(`${message}; ${clockTolerance} s are accepted`)
    : wrong('login.clockTolerance', message, 'Set the clock of this host (NTP) rather than the option.');
}
