import type { CompactJWSHeaderParameters } from 'jose';
import type { SigningKey } from './provider-keys.js';

/** Claims under construction. */
export type Claims = Record<string, unknown>;

/** One change of an ID token that is good otherwise. */
export interface TokenChange {
  /** Changes the claims in place. */
  claims?: (claims: Claims) => void;
  header?: Partial<CompactJWSHeaderParameters>;
  /** Signs with another key. */
  key?: SigningKey;
  /** Writes the token in its own way; gets the payload and the token as it would have been. */
  write?: (payload: string, token: string) => string | Promise<string>;
}

/** A reply before it goes out. */
export interface WireReply {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** `reset` before a byte, `cut` in the middle of the body, `silence` forever. */
  fault?: 'reset' | 'cut' | 'silence';
}

/** Changes a reply, in place or by another. */
export type ReplyChange = (reply: WireReply) => WireReply | void;

/** What this provider does differently from an honest one. Empty: nothing. */
export interface Script {
  /** Parameters of the authorization response. */
  authorization?: (parameters: URLSearchParams) => void;
  /** ID token of the authorization response. */
  frontToken?: TokenChange;
  /** ID token of the token endpoint. */
  backToken?: TokenChange;
  token?: ReplyChange;
  userinfo?: ReplyChange;
  keys?: ReplyChange;
  /** `userinfo`: the ID token carries no e-mail address. `nowhere`: nothing does. */
  email?: 'userinfo' | 'nowhere';
}

/** A JSON reply of another body. */
export const answers =
  (body: unknown, status = 200): ReplyChange =>
  (reply) => {
    reply.status = status;
    reply.body = JSON.stringify(body);
  };

/** The reply with some members changed; `undefined` takes one out. */
export const changes =
  (members: Claims): ReplyChange =>
  (reply) => {
    reply.body = JSON.stringify({ ...(JSON.parse(reply.body) as Claims), ...members });
  };

/** A reply that is something else on the wire. */
export const sends =
  (reply: Partial<WireReply>): ReplyChange =>
  (good) => ({ ...good, ...reply });
