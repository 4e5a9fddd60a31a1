// Loads all exhibitors of an event with server-sent events. Without scripts, the page shows page 1 and links.

const view = document.querySelector('[data-live]');
const find = (name) => view.querySelector(`[data-${name}]`);

const numbers = new Intl.NumberFormat('en');
const bar = find('bar');
const count = find('count');
const toggle = find('toggle');
const alertLine = find('alert');
const rows = find('rows');
const rowTemplate = find('row');
const LOADING = 'Loading…';

/** The open event stream; undefined when it is closed. */
let source;

function start() {
  // The existing rows stay until the first page has arrived.
  let isFirstPage = true;
  alertLine.hidden = true;
  find('announcement').textContent = '';
  toggle.textContent = 'Stop';
  bar.max = 1;
  bar.value = 0;
  count.textContent = LOADING;

  source = new EventSource(view.dataset.live);
  source.addEventListener('page', ({ data }) => {
    if (isFirstPage) {
      rows.replaceChildren();
    }
    isFirstPage = false;
    showPage(JSON.parse(data));
  });
  source.addEventListener('done', () => {
    closeStream();
    bar.value = bar.max;
    find('announcement').textContent = `All ${numbers.format(rows.childElementCount)} exhibitors are shown.`;
  });
  source.addEventListener('failed', () => {
    fail('The list is not complete. The exhibitor service did not answer as it should. Please try again.');
  });
  source.addEventListener('error', ({ target }) => {
    // CLOSED: the server rejected the request, for example because the login has expired. After other errors the browser
    // would connect again and load the whole event once more, so that the stream is closed here.
    const rejected = target.readyState === EventSource.CLOSED;
    fail(
      rejected
        ? 'The server rejected the request. Please reload the page.'
        : 'The connection was lost before the list was complete.',
    );
  });
}

function showPage({ rows: exhibitors, total }) {
  const fragment = document.createDocumentFragment();
  for (const exhibitor of exhibitors) {
    const row = rowTemplate.content.cloneNode(true);
    for (const cell of row.querySelectorAll('[data-field]')) {
      cell.textContent = exhibitor[cell.dataset.field];
    }
    fragment.append(row);
  }
  rows.append(fragment);
  const loaded = rows.childElementCount;
  find('table').hidden = total === 0;
  bar.max = Math.max(total, 1);
  bar.value = loaded;
  count.textContent = `${numbers.format(loaded)} of ${numbers.format(total)} ${total === 1 ? 'exhibitor' : 'exhibitors'}`;
}

function closeStream() {
  source?.close();
  source = undefined;
  toggle.textContent = 'Load again';
  if (count.textContent === LOADING) {
    count.textContent = 'Not loaded';
  }
}

function fail(reason) {
  closeStream();
  alertLine.textContent = reason;
  alertLine.hidden = false;
  toggle.textContent = 'Try again';
}

toggle.addEventListener('click', () => {
  if (!source) {
    return start();
  }
  closeStream();
  find('announcement').textContent = 'Stopped.';
});

for (const element of view.querySelectorAll('[data-paging]')) {
  element.hidden = true;
}
find('panel').hidden = false;
start();
