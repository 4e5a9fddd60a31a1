/** Every benchmark, one after the other; `BENCH_ROUNDS` rounds each. The process fails if a promise is not kept. */
for (const name of ['list', 'tokens', 'streaming']) {
  await import(`./${name}.mjs`);
}
