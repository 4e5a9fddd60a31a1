/**
 * Runs before every suite: a `fetch` of a test opens a connection of its own. A server closes a connection that was idle
 * for 5 s, and a busy test process may send a request on it in that moment: the test would fail with "other side closed".
 */
const { fetch } = globalThis;

globalThis.fetch = (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set('connection', 'close');
  return fetch(input, { ...init, headers });
};
