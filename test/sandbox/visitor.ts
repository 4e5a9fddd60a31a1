/** A browser without pictures: follows redirects on request and keeps cookies by name and path. */
export class Visitor {
  readonly #cookies = new Map<string, { name: string; path: string; value: string }>();

  /** Asks for an address and follows redirects until one leaves `origin`, or a page is there. */
  async open(address: string, origin = new URL(address).origin): Promise<{ response: Response; url: URL }> {
    let url = new URL(address);
    let response = await this.send(url);
    for (let hops = 0; hops < 10; hops += 1) {
      const location = response.headers.get('location');
      if (location === null) {
        return { response, url };
      }
      url = new URL(location, url);
      if (url.origin !== origin) {
        return { response, url };
      }
      response = await this.send(url);
    }
    throw new Error('too many redirects');
  }

  /** Posts the form of a page, as its button would, and goes on from there. */
  async post(address: URL, fields: Record<string, string>): Promise<{ response: Response; url: URL }> {
    const response = await this.send(address, { method: 'POST', body: new URLSearchParams(fields) });
    const location = response.headers.get('location');
    return location === null ? { response, url: address } : this.open(new URL(location, address).href);
  }

  async send(url: URL, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.#cookies.values()]
      .filter(({ path }) => url.pathname.startsWith(path))
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
    const response = await fetch(url, {
      ...init,
      redirect: 'manual',
      headers: { cookie, accept: 'text/html' },
    });
    for (const line of response.headers.getSetCookie()) {
      this.#keep(line);
    }
    return response;
  }

  #keep(line: string): void {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
    const path = /; path=([^;]+)/i.exec(line)?.[1] ?? '/';
    if (/expires=Thu, 01 Jan 1970/i.test(line)) {
      this.#cookies.delete(`${name} ${path}`);
    } else {
      this.#cookies.set(`${name} ${path}`, { name, path, value });
    }
  }
}
