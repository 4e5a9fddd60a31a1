import { parseSetCookie } from 'cookie';

/** A reply as a person's browser sees it. */
export interface Reply {
  status: number;
  headers: Headers;
  text: string;
  location: string | undefined;
  setCookies: string[];
}

export interface VisitOptions {
  method?: string;
  headers?: Record<string, string>;
  form?: Record<string, string> | URLSearchParams;
  json?: unknown;
}

/**
 * A browser as far as a login needs one: keeps host-only cookies by host name, as browsers do whatever the port, and
 * follows redirects only when told to. `origins` lets https addresses reach a server on loopback, as a proxy would.
 */
export class Visitor {
  readonly #jar = new Map<string, Map<string, string>>();

  constructor(private readonly origins: Record<string, string> = {}) {}

  cookies(host: string): Map<string, string> {
    const cookies = this.#jar.get(host) ?? new Map<string, string>();
    this.#jar.set(host, cookies);
    return cookies;
  }

  async visit(address: string | URL, options: VisitOptions = {}): Promise<Reply> {
    const url = new URL(address);
    const cookies = this.cookies(url.hostname);
    const sent = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const form = options.form && new URLSearchParams(options.form);
    const json = options.json === undefined ? undefined : JSON.stringify(options.json);
    const target = `${this.origins[url.origin] ?? url.origin}${url.pathname}${url.search}`;
    const response = await fetch(target, {
      method: options.method ?? (form || json ? 'POST' : 'GET'),
      headers: {
        ...(sent ? { cookie: sent } : {}),
        ...(json ? { 'content-type': 'application/json' } : {}),
        ...options.headers,
      },
      body: form ?? json ?? null,
      redirect: 'manual',
    });
    const setCookies = response.headers.getSetCookie();
    for (const header of setCookies) {
      const { name, value, maxAge } = parseSetCookie(header);
      if (value === undefined || value === '' || maxAge === 0) {
        cookies.delete(name);
      } else {
        cookies.set(name, value);
      }
    }
    const location = response.headers.get('location');
    return {
      status: response.status,
      headers: response.headers,
      text: await response.text(),
      location: location === null ? undefined : new URL(location, url).href,
      setCookies,
    };
  }

  /** Visits and follows redirects, up to and not including one that `stopAt` matches. */
  async follow(
    address: string | URL,
    stopAt?: (url: URL) => boolean,
    headers?: Record<string, string>,
  ): Promise<Reply & { url: string }> {
    let url = new URL(address).href;
    for (let hop = 0; hop < 15; hop++) {
      const reply = await this.visit(url, { headers });
      const next = reply.location;
      if (next === undefined || reply.status < 300 || reply.status >= 400) {
        return { ...reply, url };
      }
      if (stopAt?.(new URL(next)) === true) {
        return { ...reply, url };
      }
      url = next;
    }
    throw new Error('redirected without end');
  }
}

/** Fields of the self-posting form of a `form_post` reply (OAuth 2.0 Form Post Response Mode §2). */
export function formFields(html: string): { action: string; fields: Record<string, string> } {
  const decode = (text: string): string =>
    text.replace(/&(amp|quot|lt|gt|#39|#x27);/g, (_, name: string) => ENTITIES[name] ?? '');
  const action = /<form[^>]*action="([^"]*)"/.exec(html)?.[1];
  if (action === undefined) {
    throw new Error(`no form in: ${html.slice(0, 200)}`);
  }
  const fields = [...html.matchAll(/<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"/g)].map(
    ([, name = '', value = '']) => [decode(name), decode(value)],
  );
  return { action: decode(action), fields: Object.fromEntries(fields) as Record<string, string> };
}

const ENTITIES: Record<string, string> = { amp: '&', quot: '"', lt: '<', gt: '>', '#39': "'", '#x27': "'" };
