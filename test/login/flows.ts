export type Flow = 'code' | 'code id_token' | 'code token id_token';

export const FLOWS: readonly Flow[] = ['code', 'code id_token', 'code token id_token'];

export function nameOf({ id, what }: { id?: string | undefined; what: string }): string {
  return id === undefined ? what : `oidcc-client-test${id}: ${what}`;
}
