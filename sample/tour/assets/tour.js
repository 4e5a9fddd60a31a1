// Remembers whether the panel is folded, and shows what a live list sends. Without scripts, the panel is open on each page.

const panel = document.querySelector('[data-tour]');

// Before the first paint: on a narrow screen the panel would push the page down.
if (!document.cookie.includes('tour-folded=') && matchMedia('(max-width: 64rem)').matches) {
  panel.open = false;
}
panel.addEventListener('toggle', ({ target }) => {
  if (target === panel) {
    document.cookie = `tour-folded=${panel.open ? 'no' : 'yes'}; Path=/; SameSite=Lax`;
  }
});

const PAUSE_MS = 1_000;
let timer;
let last;

async function update(looksLeft) {
  clearTimeout(timer);
  const reply = await fetch('/tour/activity').catch(() => undefined);
  if (!reply?.ok) {
    return;
  }
  const text = await reply.text();
  if (last !== text) {
    const { banner, requests } = JSON.parse(text);
    document.querySelector('[data-tour-banner]').outerHTML = banner;
    document.querySelector('[data-tour-requests]').innerHTML = requests;
  }
  const left = last === text ? looksLeft - 1 : 3;
  last = text;
  if (left > 0) {
    timer = setTimeout(() => update(left), PAUSE_MS);
  }
}

addEventListener('load', () => {
  // Only a live list sends requests after its page was shown.
  if (document.querySelector('[data-live]')) {
    document.querySelector('main').addEventListener('click', () => update(3));
    update(3);
  }
});
