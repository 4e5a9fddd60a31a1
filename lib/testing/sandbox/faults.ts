/**
 * A fault in the reply to a request. `delay`, `drip`, `truncate`, `closeIdle` and faults at `mid-body` process the
 * request and change how the regular reply is sent. The others replace the reply: the request is not processed, so that
 * for example no token is issued.
 *
 * | kind | reply |
 * |---|---|
 * | `status` | `status` with `headers` and `body` (default: a small JSON error) |
 * | `body` | `body` with `contentType` (default `application/json; charset=utf-8`) and `status` (default 200) |
 * | `delay` | the regular reply, `ms` milliseconds later |
 * | `reset` | connection reset (TCP RST) before the first byte, inside the headers, or after half of the regular reply's body |
 * | `stall` | no bytes, or only half of the regular reply's body; the connection stays open until the client closes it |
 * | `drip` | the regular reply, one byte of its body every `msPerByte` milliseconds |
 * | `truncate` | half of the regular reply's body, then the connection is closed; `content-length` announces the whole body |
 * | `gzipBomb` | 200 with gzip-compressed JSON text of `bytes` bytes uncompressed |
 * | `largeBody` | 200 with JSON text of `bytes` bytes, sent as fast as the client reads |
 * | `redirect` | `status` (default 302) with `location` |
 * | `closeIdle` | the regular reply without `Connection: close`, then the connection is closed: a client that reuses the connection for its next request may get an error |
 *
 * @example
 * const fault: Fault = { kind: 'status', status: 429, headers: { 'retry-after': '2' } };
 */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string | Uint8Array;
    }
  | {
      readonly kind: 'body';
      readonly body: string | Uint8Array;
      readonly contentType?: string;
      readonly status?: number;
    }
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'reset'; readonly at: 'before-headers' | 'mid-headers' | 'mid-body' }
  | { readonly kind: 'stall'; readonly at: 'before-headers' | 'mid-body' }
  | { readonly kind: 'drip'; readonly msPerByte: number }
  | { readonly kind: 'truncate' }
  | { readonly kind: 'gzipBomb'; readonly bytes: number }
  | { readonly kind: 'largeBody'; readonly bytes: number }
  | { readonly kind: 'redirect'; readonly location: string; readonly status?: number }
  | { readonly kind: 'closeIdle' };
