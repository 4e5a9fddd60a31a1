import type { ExhibitorSandbox, SandboxTenantOptions } from 'nestjs-exhibitor/testing';

export interface Page {
  readonly paginationMetadata: Record<string, number | boolean>;
  readonly data: readonly { readonly id: string }[];
}

/** The reply of the token endpoint. */
export interface Tokens {
  readonly access_token: string;
  readonly id_token: string;
  readonly expires_in: number;
}

/** The JSON body of a reply as a `T`, unchecked: the test checks it. */
export async function jsonOf<T>(reply: Response | Promise<Response>): Promise<T> {
  return (await (await reply).json()) as T;
}

type ApiClient = Pick<SandboxTenantOptions, 'authUrl' | 'clientId' | 'clientSecret'>;

/** Sends a token request with these fields and the credentials of the tenant. */
export function askToken(
  { authUrl, clientId, clientSecret }: ApiClient,
  fields: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${authUrl}/connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret,
      scope: 'idp_api',
      ...fields,
    }),
  });
}

export async function tokenOf(tenant: ApiClient): Promise<string> {
  return (await jsonOf<Tokens>(askToken(tenant))).access_token;
}

/** The headers of a valid REST request. */
export async function apiHeaders(sandbox: ExhibitorSandbox, key: string): Promise<Record<string, string>> {
  const tenant = sandbox.tenantOptions(key);
  return {
    authorization: `Bearer ${await tokenOf(tenant)}`,
    'x-tenant-id': tenant.tenantId,
    accept: 'application/json',
  };
}

export function eventUrl(sandbox: ExhibitorSandbox, eventId: string, query = ''): string {
  return `${sandbox.url}/api/v1/exhibitor/event/${encodeURIComponent(eventId)}${query}`;
}

export function lookupUrl(sandbox: ExhibitorSandbox, eventId: string, contactEmail: string): string {
  return `${eventUrl(sandbox, eventId)}/contactEmail/${encodeURIComponent(contactEmail)}`;
}
