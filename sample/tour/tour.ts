import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Eta } from 'eta';
import { LRUCache } from 'lru-cache';
import { SOURCE } from '../pages/views.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { explain, summarize, type Entry } from './explain.js';
import { FAULTS, OTHER } from './faults.js';
import { snippetOf } from './snippet.js';
import { stopOf } from './stops.js';

/** What a browser caused since it was shown its last page: redirects and scripts belong to the page that they lead to. */
interface Visit {
  path: string;
  entries: Entry[];
  isShown: boolean;
  isFolded: boolean;
  /** The fault of the sandbox that the requests of the page may meet. */
  fault: string | undefined;
}

const CHANNELS = ['request', 'token', 'lookup', 'login'] as const;
const MOST_ENTRIES = 500;

/** The panel "What to try": it shows what each page uses of the module, and what the module did for it. */
@Injectable()
export class Tour implements OnModuleInit, OnModuleDestroy {
  private readonly visits = new LRUCache<string, Visit>({ max: 1_000 });
  private readonly current = new AsyncLocalStorage<Visit>();
  private readonly eta = new Eta({ views: join(SOURCE, 'tour'), cache: true, autoEscape: true });
  private readonly listeners = CHANNELS.map((channel) => ({
    name: `nestjs-exhibitor:${channel}`,
    listen: (message: unknown) => this.note(entryOf(channel, message)),
  }));

  constructor(@Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions) {}

  onModuleInit(): void {
    this.listeners.forEach(({ name, listen }) => subscribe(name, listen));
  }

  onModuleDestroy(): void {
    this.listeners.forEach(({ name, listen }) => unsubscribe(name, listen));
  }

  /** Runs a request in the context of the page that it belongs to: the messages of the channels arrive in it. */
  readonly middleware = async (
    request: IncomingMessage,
    response: ServerResponse,
    next: () => void,
  ): Promise<void> => {
    const { cookie = '', accept = '', 'user-agent': browser = '' } = request.headers;
    const isPage = accept.includes('text/html');
    const [, id = randomUUID()] = /(?:^|; )tour=([\w-]{36})/.exec(cookie) ?? [];
    const former = this.visits.get(id);
    const visit =
      former && !(former.isShown && isPage)
        ? former
        : { path: '/', entries: [], isShown: false, isFolded: false, fault: undefined };
    if (isPage) {
      visit.path = request.url ?? '/';
      visit.isFolded =
        cookie.includes('tour-folded=yes') ||
        (browser.includes('Mobi') && !cookie.includes('tour-folded=no'));
      this.visits.set(id, visit);
      // Asked before the page sends a request that meets it. A sandbox that has ended has none.
      visit.fault = await this.options.faults?.current().catch(() => undefined);
    }
    if (isPage && !former) {
      response.setHeader('Set-Cookie', `tour=${id}; Path=/; HttpOnly; SameSite=Lax`);
    }
    this.current.run(visit, next);
  };

  /** Adds panel and banner to the model of a page. */
  readonly extend = (view: string, model: object): object => {
    const visit = this.current.getStore();
    if (!visit) {
      return { tour: {} };
    }
    visit.isShown = true;
    const stop = stopOf(view === 'problem' && visit.path.includes('/auth/') ? 'login' : view);
    const { banner, requests } = this.activity();
    const { portals, faults } = this.options;
    const { fault } = visit;
    const panel = this.eta.render('./panel', {
      ...model,
      ...visit,
      stop,
      code: snippetOf(stop.file, stop.method),
      requests,
      portals,
      faults: faults && Object.entries(FAULTS),
      faultOn: fault && (FAULTS[fault] ?? { name: OTHER, text: 'It was added to the sandbox elsewhere.' }),
    });
    return { tour: { banner, panel } };
  };

  /** What the module did for the page that is shown. */
  activity(): { banner: string; requests: string } {
    const { entries = [], fault } = this.current.getStore() ?? {};
    return {
      banner: this.eta.render('./banner', explain(entries, fault)),
      requests: this.eta.render('./requests', { lines: summarize(entries) }),
    };
  }

  private note(entry: Entry): void {
    const entries = this.current.getStore()?.entries ?? [];
    entries.splice(0, entries.length - MOST_ENTRIES + 1);
    entries.push(entry);
  }
}

/** The module publishes messages of the type of the channel. */
function entryOf(channel: Entry['channel'], message: unknown): Entry {
  return { channel, ...(message as object) } as Entry;
}
