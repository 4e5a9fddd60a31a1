/**
 * Every benchmark, one after the other; `BENCH_ROUNDS` rounds each. The process fails if a promise is not kept.
 * `npm run bench -- guards` runs one.
 */
const all = ['guards', 'list', 'tokens', 'streaming', 'heap', 'logins', 'ways', 'start'];
const [only] = process.argv.slice(2);
for (const name of all.filter((each) => only === undefined || each === only)) {
  const began = performance.now();
  await import(`./${name}.mjs`);
  console.log(`(${name}: ${((performance.now() - began) / 1000).toFixed(0)} s)\n`);
}
