/**
 * What goes wrong with a request, told apart by `kind`. "The true reply" is what the sandbox would have answered;
 * the kinds that do not mention it answer without doing what was asked, so that no token is issued.
 *
 * | kind | on the wire |
 * |---|---|
 * | `status` | this status, these headers, and `body` (default: a small JSON error) |
 * | `body` | this body with `contentType` (default `application/json`) and `status` (default 200) |
 * | `delay` | the true reply, `ms` later |
 * | `reset` | the connection is reset (RST): before any byte, in the middle of the headers, or in the middle of the true reply's body |
 * | `stall` | nothing more comes: before any byte, or after half of the true reply's body; ends when the client goes |
 * | `drip` | the true reply, one byte of its body each `msPerByte` |
 * | `truncate` | half of the true reply's body, then the connection is closed, in spite of its `content-length` |
 * | `gzipBomb` | 200 with a gzipped JSON text that unpacks to `bytes` |
 * | `largeBody` | 200 with a JSON text of `bytes`, sent as fast as the client reads |
 * | `redirect` | `status` (default 302) to `location` |
 * | `closeIdle` | the true reply as if the connection stayed open, which then closes at once: the next request may meet a stale connection |
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
