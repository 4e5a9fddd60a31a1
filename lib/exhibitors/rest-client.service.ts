import { Inject, Injectable } from '@nestjs/common';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { isEmptyObject, isRecord } from '../model/json-values.js';
import { memberName, untrustedText } from '../model/untrusted-text.js';
import { statusProblem } from '../config/problems/partner-problems.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import type { AccessToken } from '../tokens/token-lifetime.js';
import { TokenService } from '../tokens/token.service.js';
import type { TransportReply, TransportRequest } from '../http/transport-request.interface.js';
import { Transport } from '../http/transport.service.js';

export interface RestRequest extends Pick<TransportRequest, 'template'> {
  operation: 'list' | 'lookup';
  /** Path below `{base_url}` with encoded parameters and query. */
  path: string;
  /** Of a lookup. */
  contact?: string;
}

/** Where the rows of a reply stand, for errors that must not show them. */
export interface RowsPlace {
  /** Key of the tenant. */
  tenant: string;
  /** Path of the list, `data`; empty where the reply is the list. */
  path: string;
  /** Said after the problem. */
  note?: string | undefined;
}

/** What both REST endpoints have in common: their requests, and the records in their replies. */
@Injectable()
export class RestClient {
  readonly #schema: StandardSchemaV1 | undefined;

  constructor(
    @Inject(Transport) private readonly transport: Transport,
    @Inject(TokenService) private readonly tokens: TokenService,
    @Inject(ProblemLog) private readonly log: ProblemLog,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#schema = settings.exhibitorSchema;
  }

  /**
   * The 2xx reply to a GET with bearer token and tenant header (service specification, Authentication). After a 401 the request is sent
   * once more where there is another token.
   *
   * @throws {ExhibitorError} `access_denied` for a 401 where no other token helps, or a 403, `not_found`, `request_rejected` for any other
   * 4xx, and errors of {@link Transport.send} and the token service
   */
  async get(tenant: Tenant, request: RestRequest, call: Call): Promise<TransportReply> {
    const token = await this.tokens.tokenFor(tenant, call);
    const first = await this.#send(tenant, request, token, call);
    const other =
      first.status === 401 ? await this.tokens.tokenAfter401(tenant, token, first.sentAt, call) : undefined;
    const reply = other === undefined ? first : await this.#send(tenant, request, other, call);
    if (reply.status === 403) {
      this.tokens.renewAfter403(tenant, other ?? token, reply.sentAt);
    }
    if (reply.status < 300) {
      tenant.stateKey.hasAnswered = true;
      return reply;
    }
    // An old token may have been revoked, and no 401 renews it now: that says nothing of the options.
    if (reply.status !== 401 || this.tokens.isYoung(other ?? token)) {
      const sent = { operation: request.operation, url: tenant.baseUrl + request.path };
      this.log.report(tenant, statusProblem(reply.status, sent, reply.body, tenant.stateKey.hasAnswered));
    }
    throw errorOf(reply.status, tenant, call.sent);
  }

  async #send(
    tenant: Tenant,
    { operation, path, template, contact }: RestRequest,
    { accessToken }: Pick<AccessToken, 'accessToken'>,
    call: Call,
  ): Promise<TransportReply> {
    const headers = { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId };
    const url = `${tenant.baseUrl}${path}`;
    const request = { operation, method: 'GET', url, template, headers, about: contact } as const;
    return this.transport.send(tenant, request, call);
  }

  /**
   * The records of a reply: the output of `exhibitorSchema`, or the rows as they are. No promise unless the schema is asynchronous.
   *
   * @throws {ExhibitorError} `malformed_response` with the path of the first issue, without values; an error thrown by the
   * schema is its `cause`
   */
  records<T>(rows: readonly unknown[], place: RowsPlace, call: Call): T[] | Promise<T[]> {
    const schema = this.#schema;
    const empty = rows.findIndex(isEmptyObject);
    if (empty !== -1) {
      throw malformed('is an empty object', [empty], place);
    }
    if (schema === undefined) {
      const other = rows.findIndex((row) => !isRecord(row));
      if (other !== -1) {
        throw malformed('is not an object', [other], place);
      }
      return rows as T[];
    }
    const results = rows.map((row, index) => this.#validate(schema, row, index, place));
    return results.some((result) => result instanceof Promise)
      ? (call.race(Promise.all(results)) as Promise<T[]>)
      : (results as T[]);
  }

  #validate(schema: StandardSchemaV1, row: unknown, index: number, place: RowsPlace): unknown {
    const accept = (result: StandardSchemaV1.Result<unknown>): unknown => {
      if (!result.issues) {
        // A schema may drop each member.
        if ((result.value ?? undefined) === undefined || isEmptyObject(result.value)) {
          throw malformed('is made nothing by exhibitorSchema', [index], place);
        }
        return result.value;
      }
      const path = (result.issues[0]?.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
      throw malformed('does not fit exhibitorSchema', [index, ...path], place);
    };
    const fail = (thrown: unknown): never => {
      const { message, code } = malformed('made exhibitorSchema throw', [index], place);
      throw this.log.hostError({ option: 'exhibitorSchema', key: place.tenant }, thrown, { code, message });
    };
    let result;
    try {
      result = schema['~standard'].validate(row);
    } catch (error) {
      return fail(error);
    }
    if (!(result instanceof Promise)) {
      return accept(result);
    }
    const checked = result.then(accept, fail);
    // When an earlier row fails, this promise is not awaited any more.
    checked.catch(() => {});
    return checked;
  }
}

/** Restores the type of cached records that {@link RestClient.records} created. */
export function recordsAs<T>(records: readonly unknown[]): readonly T[] {
  return records as readonly T[];
}

/** @param path of the problem, in the rows */
function malformed(
  problem: string,
  path: readonly PropertyKey[],
  { tenant, path: of, note }: RowsPlace,
): ExhibitorError {
  const shown = [of, ...path.map(memberName)].filter(Boolean).join('.');
  const message = [`${untrustedText(shown)} ${problem}`, note].filter(Boolean).join('; ');
  return new ExhibitorError('malformed_response', message, { tenant });
}

function errorOf(status: number, tenant: Tenant, attempts: number): ExhibitorError {
  const details: ExhibitorErrorDetails = { tenant: tenant.key, status, attempts };
  if (status === 404) {
    return new ExhibitorError('not_found', 'the service knows no such resource', details);
  }
  if (status === 401 || status === 403) {
    return new ExhibitorError('access_denied', `the service denied access with status ${status}`, details);
  }
  return new ExhibitorError(
    'request_rejected',
    `the service rejected the request with status ${status}`,
    details,
  );
}
