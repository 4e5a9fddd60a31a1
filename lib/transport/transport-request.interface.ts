/** What a request is for; decides which budget it draws on and how large its reply may be. */
export type Operation = 'token' | 'list' | 'lookup' | 'code' | 'userinfo' | 'keys';

/** One request to the service, before retries. */
export interface TransportRequest {
  operation: Operation;
  method: 'GET' | 'POST';
  /** Absolute; everything in its path and query already encoded. */
  url: string;
  /** Path with its parameters named, never their values, for diagnostics: `/api/v1/exhibitor/event/{eventId}`. */
  template: string;
  headers?: Readonly<Record<string, string>>;
  /** An `application/x-www-form-urlencoded` body. */
  body?: string;
  /** `'never'`: one request on a fresh connection, whatever happens (an authorization code). Default `'safe'`. */
  repeat?: 'safe' | 'never';
}

/** A reply the caller has to judge: any 2xx, and any 4xx but 408 and 429. */
export interface TransportReply {
  status: number;
  /** By lower-case name. */
  headers: Record<string, string | undefined>;
  /** Parsed JSON. `undefined` on 204, and on a 4xx whose body is not JSON. */
  body: unknown;
  /** Size of the body as it came over the wire, in bytes. */
  receivedBytes?: number;
  /** {@link Clock.now} when the request that was answered was sent. */
  sentAt: number;
  /** Requests that were sent for it. */
  attempts: number;
}
