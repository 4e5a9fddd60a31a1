import { Agent, request, type IncomingMessage } from 'node:http';
import { parseSetCookie } from 'cookie';

/** Connections are reused for a moment: no server closes one that was idle for so short a time. */
const agent = new Agent({ keepAlive: true, timeout: 500 });

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
 * A browser without pages: keeps cookies by host name (for every port, as browsers do) and by path, and follows
 * redirects only in `follow`, `open` and `post`. `origins` maps https origins to servers on loopback, as a proxy would.
 */
export class Visitor {
  readonly #jar = new Map<string, Map<string, string>>();
  /** Cookies of other paths, by path and name. */
  readonly #below = new Map<string, Map<string, string>>();

  constructor(private readonly origins: Record<string, string> = {}) {}

  /** Cookies of a host with the path `/`. A test may change them. */
  cookies(host = '127.0.0.1'): Map<string, string> {
    return cookiesIn(this.#jar, host);
  }

  async visit(address: string | URL, options: VisitOptions = {}): Promise<Reply> {
    const url = new URL(address);
    const below = [...cookiesIn(this.#below, url.hostname)].map(([key, value]) => [...key.split(' '), value]);
    const sent = [
      ...below.filter(([path = '']) => url.pathname.startsWith(path)).map(([, ...cookie]) => cookie),
      ...this.cookies(url.hostname),
    ]
      .map(([name, value]) => `${name}=${value}`)
      .join('; ');
    const form = options.form && new URLSearchParams(options.form);
    const json = options.json === undefined ? undefined : JSON.stringify(options.json);
    const target = `${this.origins[url.origin] ?? url.origin}${url.pathname}${url.search}`;
    const body = form?.toString() ?? json;
    const type = form === undefined ? 'application/json' : 'application/x-www-form-urlencoded';
    const { status, headers, text } = await send(target, {
      body,
      method: options.method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(sent ? { cookie: sent } : {}),
        ...(body === undefined ? {} : { 'content-type': type }),
        ...options.headers,
      },
    });
    const setCookies = headers.getSetCookie();
    for (const header of setCookies) {
      this.#keep(url.hostname, header);
    }
    const location = headers.get('location');
    return {
      status,
      headers,
      text,
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
    throw new Error('more than 15 redirects');
  }

  /** Visits as a browser does and follows redirects within the origin; `url` is the page, or where the last one leads. */
  async open(address: string | URL): Promise<{ reply: Reply; url: URL }> {
    const { origin } = new URL(address);
    const reply = await this.follow(address, (next) => next.origin !== origin, { accept: 'text/html' });
    return { reply, url: new URL(reply.location ?? reply.url) };
  }

  /** Submits a form of a page and continues as `open` does. */
  async post(address: URL, form: Record<string, string>): Promise<{ reply: Reply; url: URL }> {
    const reply = await this.visit(address, { form, headers: { accept: 'text/html' } });
    return reply.location === undefined ? { reply, url: address } : this.open(reply.location);
  }

  #keep(host: string, header: string): void {
    const { name, value, maxAge, path = '/' } = parseSetCookie(header, { decode: (raw) => raw });
    const [cookies, key] =
      path === '/' ? [this.cookies(host), name] : [cookiesIn(this.#below, host), `${path} ${name}`];
    if (value === undefined || value === '' || maxAge === 0) {
      cookies.delete(key);
    } else {
      cookies.set(key, value);
    }
  }
}

function cookiesIn(jar: Map<string, Map<string, string>>, host: string): Map<string, string> {
  const cookies = jar.get(host) ?? new Map<string, string>();
  jar.set(host, cookies);
  return cookies;
}

interface Sent {
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/** `fetch` takes three times as long. */
async function send(target: string, sent: Sent): Promise<Pick<Reply, 'status' | 'headers' | 'text'>> {
  const response = await responseTo(target, sent);
  const headers = new Headers();
  // Names and values in turns. Not headersDistinct: after some suites of a process it is empty, in Node 20.
  const raw = response.rawHeaders;
  for (let at = 0; at < raw.length; at += 2) {
    headers.append(raw[at] ?? '', raw[at + 1] ?? '');
  }
  const text = Buffer.concat(await response.toArray()).toString();
  return { status: response.statusCode ?? 0, headers, text };
}

/** Sends again where the server has closed the reused connection, as browsers do. */
function responseTo(target: string, sent: Sent): Promise<IncomingMessage> {
  const { method, headers, body } = sent;
  return new Promise((resolve, reject) => {
    const outgoing = request(target, { method, headers, agent }, resolve);
    outgoing.on('error', (error) =>
      outgoing.reusedSocket ? resolve(responseTo(target, sent)) : reject(error),
    );
    outgoing.end(body);
  });
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
