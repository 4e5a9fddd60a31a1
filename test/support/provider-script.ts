import type { CompactJWSHeaderParameters } from 'jose';
import type { SigningKey } from './provider-keys.js';

/** Claims of a token. */
export type Claims = Record<string, unknown>;

/** One change of a valid ID token. */
export interface TokenChange {
  /** Changes the claims in place. */
  claims?: (claims: Claims) => void;
  header?: Partial<CompactJWSHeaderParameters>;
  /** Signs with another key. */
  key?: SigningKey;
  /** Returns the token to send, given the payload and the unchanged token. */
  write?: (payload: string, token: string) => string | Promise<string>;
}

/** A reply before it is sent. */
export interface WireReply {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** `reset` before a byte, `cut` in the middle of the body, `silence`: no reply. */
  fault?: 'reset' | 'cut' | 'silence';
  /** Milliseconds before the reply. */
  delay?: number;
}

/** Changes a reply in place or returns another. */
export type ReplyChange = (reply: WireReply) => WireReply | void;

/** Differences from a correct provider. Empty: none. */
export interface Script {
  /** Parameters of the authorization response. */
  authorization?: (parameters: URLSearchParams) => void;
  /** ID token of the authorization response. */
  frontToken?: TokenChange;
  /** ID token of the token endpoint. */
  backToken?: TokenChange;
  token?: ReplyChange;
  /** Secret that the token endpoint accepts; any other is refused before the code is looked at. Default: any. */
  clientSecret?: string;
  userinfo?: ReplyChange;
  keys?: ReplyChange;
  /** Reply of `/.well-known/openid-configuration`. */
  metadata?: ReplyChange;
  /** `userinfo`: the ID token carries no e-mail address. `nowhere`: nothing does. */
  email?: 'userinfo' | 'nowhere';
}

/** An ID token with these claims; `undefined` removes one. A function is called for each token. */
export const set = (claims: Claims | (() => Claims)): TokenChange => ({
  claims: (all) => void Object.assign(all, typeof claims === 'function' ? claims() : claims),
});

export const without = (...names: string[]): TokenChange => ({
  claims: (all) => names.forEach((name) => Reflect.deleteProperty(all, name)),
});

/** A provider whose token endpoint sends an ID token with these claims. */
export const says = (claims: Claims): Script => ({ backToken: set(claims) });

/** A JSON reply of another body. */
export const answers =
  (body: unknown, status = 200): ReplyChange =>
  (reply) => {
    reply.status = status;
    reply.body = JSON.stringify(body);
  };

/** The reply with some members changed; `undefined` removes one. */
export const changes =
  (members: Claims): ReplyChange =>
  (reply) => {
    reply.body = JSON.stringify({ ...(JSON.parse(reply.body) as Claims), ...members });
  };

/** The reply with another status, headers, body or fault. */
export const sends =
  (reply: Partial<WireReply>): ReplyChange =>
  (good) => ({ ...good, ...reply });
