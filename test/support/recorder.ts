import { startServer, sendJson, type TestServer } from './server.js';

/** A request that reached the server, and how it ended. */
export interface Recorded {
  url: string;
  end: 'open' | 'aborted' | 'completed';
}

/** A service that records how each request ended. Token requests are answered at once and not recorded. */
export interface Recorder extends TestServer {
  recorded: Recorded[];
  /** URLs of the requests that ended in this way. */
  ended(end: Recorded['end']): string[];
  forget(): void;
}

/** Starts a recorder. `answer` returns the JSON of a reply; `undefined` leaves the request unanswered. */
export async function startRecorder(answer: (url: URL) => unknown = () => undefined): Promise<Recorder> {
  const recorded: Recorded[] = [];
  const server = await startServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://service');
    if (url.pathname === '/connect/token' && request.headers['x-recorded'] === undefined) {
      sendJson(response, { access_token: 'token-of-the-recorder', expires_in: 3600, token_type: 'Bearer' });
      return;
    }
    const entry: Recorded = { url: `${url.pathname}${url.search}`, end: 'open' };
    recorded.push(entry);
    response.on('close', () => {
      entry.end = response.writableFinished ? 'completed' : 'aborted';
    });
    const body = answer(url);
    if (body !== undefined) {
      sendJson(response, body);
    }
  });
  return Object.assign(server, {
    recorded,
    ended: (end: Recorded['end']) => recorded.filter((request) => request.end === end).map(({ url }) => url),
    forget: () => void recorded.splice(0),
  });
}
