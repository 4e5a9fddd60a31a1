import { safeReturnTo } from '../../lib/login/return-to.js';
import { parseUrl } from '../../lib/model/urls.js';

it('still reads addresses with letters of Latin-1 when V8 has optimized it', () => {
  const addresses = ['http://münchen.example/é', 'https://example.com/ß?ü'];
  const wrong = Array.from({ length: 20_000 }, () => addresses.map((text) => parseUrl(text))).flat();
  expect(wrong.filter((url) => url === undefined)).toEqual([]);
  const returned = Array.from({ length: 20_000 }, () => safeReturnTo('/büros?größe=ñ'));
  expect(new Set(returned)).toEqual(new Set(['/büros?größe=ñ']));
  expect(parseUrl('not a URL')).toBeUndefined();
});
