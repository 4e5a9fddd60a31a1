/** The question which exhibitor a person acts for: what its requests say, and the names that are shown. */
import { SetMetadata, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { HttpContext } from '../browser/http-context.js';
import { isRecord } from '../model/json-values.js';
import { normalizeReturnTo, safeReturnTo } from '../login/return-to.js';

const CHOOSING = Symbol.for('nestjs-exhibitor.choosing');
const reflector = new Reflector();

/** Marks the handlers of `choose`: their requests name the event themselves, and no exhibitor. */
export const Choosing = (): MethodDecorator => SetMetadata(CHOOSING, true);

export function isChoosing(context: ExecutionContext): boolean {
  return reflector.get<boolean | undefined>(CHOOSING, context.getHandler()) === true;
}

/** A parameter of a request. One that is empty, or given more than once, counts as none. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What a request of `choose` or of the logout says, in its form or JSON by POST, else in its query. */
export function fieldOf({ request }: HttpContext, name: string): string | undefined {
  const { method, body, query } = request;
  const fields = method === 'POST' && isRecord(body) ? body : query;
  return textOf(fields[name]);
}

/** Where a request wants to go on, as browsers request it. */
export function returnToOf(value: unknown): string | undefined {
  const returnTo = safeReturnTo(value);
  return returnTo === undefined ? undefined : normalizeReturnTo(returnTo);
}

/** Members of a record that may be a name for people. */
const NAMES = ['name', 'title', 'companyName'];

/** What people read of an exhibitor where the host does not say: text that is one line of a list. */
export function defaultLabel(record: unknown): string | undefined {
  const values = isRecord(record) ? NAMES.map((name) => record[name]) : [];
  return values.find(isLabel);
}

export function isLabel(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}
