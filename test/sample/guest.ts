import { Visitor, type Reply } from '../support/visitor.js';

/** A page of the sample, as a browser without scripts shows it. */
export class Page {
  constructor(
    readonly url: string,
    readonly reply: Pick<Reply, 'status' | 'text'>,
  ) {}

  get html(): string {
    return this.reply.text.replace(/<template\b[\s\S]*?<\/template>/g, '');
  }

  /** Visible text, white space collapsed. */
  get text(): string {
    return textOf(this.html.replace(/<(head|script)\b[\s\S]*?<\/\1>/g, ''));
  }

  get heading(): string {
    return this.all(/<h1>(.*?)<\/h1>/gs).join();
  }

  /** Status and heading. */
  get summary(): string {
    return `${this.reply.status} ${this.heading}`;
  }

  /** Text of the first group of each match. */
  all(pattern: RegExp): string[] {
    return [...this.html.matchAll(pattern)].map(([, found = '']) => textOf(found));
  }

  /** Address of the link with this text or label within the content of the page, or its header. */
  link(name: string): string {
    const links = [...this.html.matchAll(/<a\b([^>]*)>(.*?)<\/a>/gs)];
    const [, attributes = ''] =
      links.find(
        ([, given = '', text = '']) => given.includes(`aria-label="${name}"`) || textOf(text) === name,
      ) ?? [];
    const [, href] = /href="([^"]*)"/.exec(attributes) ?? [];
    if (href === undefined) {
      throw new Error(`${this.summary} has no link "${name}"`);
    }
    return new URL(textOf(href), this.url).href;
  }
}

/** A person with a browser without scripts. It follows redirects, also to the provider and back. */
export class Guest {
  /** Addresses of all redirects. */
  readonly redirects: string[] = [];
  readonly #visitor = new Visitor();

  async open(address: string): Promise<Page> {
    const note = ({ href }: URL): boolean => this.redirects.push(href) === 0;
    const reply = await this.#visitor.follow(address, note, { accept: 'text/html' });
    return new Page(reply.url, reply);
  }

  /** Submits a form to an address, from a page of its origin unless `sent` says otherwise. */
  async post(address: string, form: Record<string, string>, sent?: Record<string, string>): Promise<Page> {
    const headers = { accept: 'text/html', ...(sent ?? { origin: new URL(address).origin }) };
    const reply = await this.#visitor.visit(address, { form, headers });
    return reply.location === undefined ? new Page(address, reply) : this.open(reply.location);
  }

  /** Follows the link of a page. */
  click(page: Page, name: string): Promise<Page> {
    return this.open(page.link(name));
  }
}

const ENTITIES: Record<string, string> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
};

/** Text of a part of a page that has no tags. */
export function decoded(html: string): string {
  return html.replace(/&(amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? '');
}

function textOf(html: string): string {
  const text = html.replaceAll('<wbr>', '').replace(/<[^>]*>/g, ' ');
  return decoded(text.replace(/\s+/g, ' ').trim());
}
