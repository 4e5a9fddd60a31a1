// Shows a whole event as its pages arrive. Without scripts the page stays what the server sent: page 1 and links on.

const view = document.querySelector('[data-live]');
const part = (name) => view.querySelector(`[data-${name}]`);

const numbers = new Intl.NumberFormat('en');
const bar = part('bar');
const count = part('count');
const toggle = part('toggle');
const alertLine = part('alert');
const rows = part('rows');
const rowTemplate = part('row');

/** The reading under way; undefined when it has ended, whatever way. */
let source;
let seen = { loaded: 0, total: 0 };

function start() {
  seen = { loaded: 0, total: 0 };
  // The rows of page 1 are there already: they stay until the stream brings them again.
  let first = true;
  alertLine.hidden = true;
  part('announcement').textContent = '';
  toggle.textContent = 'Stop';
  bar.removeAttribute('data-ended');
  bar.max = 1;
  bar.value = 0;
  count.textContent = 'Loading…';

  source = new EventSource(view.dataset.live);
  source.addEventListener('page', ({ data }) => {
    const page = JSON.parse(data);
    if (first) {
      rows.replaceChildren();
    }
    first = false;
    seen = page;
    show(page);
  });
  source.addEventListener('complete', () => {
    end();
    bar.value = bar.max;
    part('announcement').textContent = `All ${numbers.format(seen.total)} exhibitors are shown.`;
  });
  source.addEventListener('failed', ({ data }) => {
    const { title, text } = JSON.parse(data);
    fail(`${title}. ${text}`);
  });
  source.addEventListener('error', ({ target }) => {
    // Refused for good, for example since the login has ended in the meantime.
    const refused = target.readyState === EventSource.CLOSED;
    // Otherwise, left alone, it would connect again and read the whole event once more.
    fail(
      refused
        ? 'The list is closed to you now. Please reload the page.'
        : 'The connection was lost before the list was complete.',
    );
  });
}

function show({ exhibitors, loaded, total }) {
  const fragment = document.createDocumentFragment();
  for (const exhibitor of exhibitors) {
    const row = rowTemplate.content.cloneNode(true);
    for (const cell of row.querySelectorAll('[data-field]')) {
      cell.textContent = exhibitor[cell.dataset.field];
    }
    fragment.append(row);
  }
  rows.append(fragment);
  part('table').hidden = total === 0;
  bar.max = Math.max(total, 1);
  bar.value = loaded;
  count.textContent = `${numbers.format(loaded)} of ${numbers.format(total)} ${total === 1 ? 'exhibitor' : 'exhibitors'}`;
}

function end() {
  source?.close();
  source = undefined;
  toggle.textContent = 'Load again';
  bar.dataset.ended = '';
}

function fail(reason) {
  end();
  alertLine.textContent = reason;
  alertLine.hidden = false;
  toggle.textContent = 'Try again';
}

toggle.addEventListener('click', () => {
  if (!source) {
    return start();
  }
  end();
  part('announcement').textContent = 'Stopped.';
});

for (const element of view.querySelectorAll('[data-paging]')) {
  element.hidden = true;
}
part('panel').hidden = false;
start();
