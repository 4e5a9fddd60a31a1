import type { CheckedOptions } from '../check-options.js';
import type { TenantSettings } from '../tenant-settings.js';

/**
 * Lines about values that are allowed and most likely mistakes, or not recommended. The module logs them at boot. Tenants of a
 * source are not known then.
 */
export function bootAdvice({ settings, tenants, pathOf }: CheckedOptions): string[] {
  const fixed = 'find' in tenants ? [] : [...tenants];
  return [
    ...settings.secrets.flatMap((secret, index) => secretAdvice(`secrets.${index}`, secret)),
    ...fixed.flatMap(([key, { clientSecret, login, baseUrl, authUrl }]) => [
      ...pathAdvice(`${pathOf(key)}.baseUrl`, baseUrl, '/api/v1'),
      ...pathAdvice(`${pathOf(key)}.authUrl`, authUrl, '/connect'),
      ...secretAdvice(`${pathOf(key)}.clientSecret`, clientSecret),
      ...secretAdvice(`${pathOf(key)}.login.clientSecret`, login?.clientSecret),
      ...scopeAdvice(pathOf(key), login),
      ...responseTypeAdvice(pathOf(key), login),
    ]),
  ];
}

/** On the value of an option that is a secret. */
function secretAdvice(path: string, secret: unknown): string[] {
  // Docker and Kubernetes keep the quotes of an env file.
  if (typeof secret !== 'string' || !/^\s|\s$|^(["'`]).*\1$/s.test(secret)) {
    return [];
  }
  return [`${path}: begins or ends with white space or quotes, which are part of it: by mistake?`];
}

/** On a URL that ends with what the module appends to it. */
function pathAdvice(path: string, url: string, appended: string): string[] {
  return url.endsWith(appended)
    ? [
        `${path}: '${url}' ends with ${appended}, which is appended to it; '${url.slice(0, -appended.length)}' is meant`,
      ]
    : [];
}

function scopeAdvice(path: string, login: TenantSettings['login']): string[] {
  const scopes = login?.scope.split(' ') ?? [];
  if (login?.redirectUri === undefined || scopes.includes('profile') || scopes.includes('email')) {
    return [];
  }
  return [
    `${path}.login.scope: has neither 'profile' nor 'email', so the provider may send no e-mail address; every login is then ` +
      'refused (email_missing)',
  ];
}

/** The hybrid flow sends tokens through the browser, so `code` is recommended (RFC 9700 §2.1.2). */
function responseTypeAdvice(path: string, login: TenantSettings['login']): string[] {
  if (login === undefined || login.responseType === 'code') {
    return [];
  }
  return [
    `${path}.login.responseType: '${login.responseType}' sends tokens through the browser; ` +
      "if the provider supports it, 'code' is recommended",
  ];
}
