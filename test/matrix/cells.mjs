/** The cells of the matrix. `cells.json` is their only list; a test compares the workflow with it. */
import { readFileSync } from 'node:fs';

/** Axis → its values. */
export const AXES = JSON.parse(readFileSync(new URL('cells.json', import.meta.url), 'utf8'));

const ALL = Object.entries(AXES).reduce(
  (cells, [axis, values]) => cells.flatMap((cell) => values.map((value) => ({ ...cell, [axis]: value }))),
  [{}],
);

/**
 * The cells that arguments choose: all without arguments, else those that have one of the values of every axis named
 * (`node=22,24 manager=pnpm`).
 */
export function chosenCells(args) {
  const wanted = args.map(parse);
  return ALL.filter((cell) => wanted.every(([axis, values]) => values.includes(cell[axis])));
}

/** `node 22, nest 12, express, npm` */
export function nameOf(cell) {
  return `node ${cell.node}, nest ${cell.nest}, ${cell.adapter}, ${cell.manager}`;
}

function parse(arg) {
  const [axis = '', list = ''] = arg.split('=');
  const values = list.split(',');
  const known = Object.hasOwn(AXES, axis) ? AXES[axis] : [];
  if (!values.every((value) => known.includes(value))) {
    const choices = Object.entries(AXES).map(([name, all]) => `${name}=${all.join(',')}`);
    throw new TypeError(`${arg} chooses no cell. Choose from: ${choices.join(' ')}`);
  }
  return [axis, values];
}
