/** Operation of a request; decides its limits and the largest accepted reply. */
export type Operation = 'token' | 'list' | 'lookup' | 'code' | 'userinfo' | 'keys' | 'metadata';

/** Headers of a request. Names are in lower case, so that none is set twice. */
export type RequestHeaders = Readonly<Record<Lowercase<string>, string>>;

/** A request to the service or the provider. */
export interface TransportRequest {
  operation: Operation;
  method: 'GET' | 'POST';
  /** Absolute, with an encoded path and query. */
  url: string;
  /** Path with the names of its parameters, without values, for diagnostics: `/api/v1/exhibitor/event/{eventId}`. */
  template: string;
  headers?: RequestHeaders;
  /** An `application/x-www-form-urlencoded` body; a function creates one for each attempt. */
  body?: string | (() => Promise<string>);
  /** Sends exactly one request, on a new connection (redeems an authorization code). By default, it may be sent again. */
  isOnce?: true;
  /** Requests with the same one pause together after `Retry-After`: the contact of a lookup, a digest of the secret of a token request. */
  about?: string | undefined;
}

/** A reply that the caller judges: any 2xx, and any 4xx but 408 and 429. */
export interface TransportReply {
  status: number;
  /** Parsed JSON. `undefined` on 204, and on a 4xx whose body is not JSON. */
  body: unknown;
  /** {@link Clock.now} when the request that was answered was sent. */
  sentAt: number;
}
