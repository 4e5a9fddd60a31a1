import { describeWith, type Program } from './programs.js';
import { newestOfDebian } from './postgres-server.js';

export { PostgresServer } from './postgres-server.js';

const POSTGRES: Program = {
  name: 'postgres',
  files: ['postgres'],
  variable: 'POSTGRES_PATH',
  elsewhere: newestOfDebian(),
};

/** A suite with a real PostgreSQL. Without one it is skipped, and a line says so; with `CI` set it fails. */
export function describeWithPostgres(title: string, suite: (path: string) => void): void {
  describeWith(POSTGRES, title, suite);
}
