import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeWith, type Program } from './programs.js';
import { freePort } from './server.js';
import { eventually } from './wait.js';

const NGINX: Program = {
  name: 'nginx',
  files: ['nginx'],
  variable: 'NGINX_PATH',
  elsewhere: '/usr/sbin/nginx',
};

/** A suite with a real nginx. Without one it is skipped, and a line says so; with `CI` set it fails. */
export function describeWithNginx(title: string, suite: (path: string) => void): void {
  describeWith(NGINX, title, suite);
}

/** An nginx on a free port of loopback. */
export class Nginx {
  private constructor(
    readonly url: string,
    private readonly folder: string,
    private readonly process: ChildProcess,
  ) {}

  /**
   * @param path of `nginx`
   * @param sites answers what stands in `http`, for a port to listen on
   */
  static async start(path: string, sites: (listen: string) => string): Promise<Nginx> {
    const folder = mkdtempSync(join(tmpdir(), 'exhibitor-nginx-'));
    const port = await freePort();
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((name) => `${name}_temp_path ${folder}/${name};`)
      .join('\n');
    const file = join(folder, 'nginx.conf');
    writeFileSync(
      file,
      `daemon off;
       worker_processes 1;
       pid ${folder}/pid;
       error_log ${folder}/error.log;
       events {}
       http { access_log off; ${paths} ${sites(`127.0.0.1:${port}`)} }`,
    );
    // Before it reads the file, it would write to the log of the system.
    const child = spawn(path, ['-e', `${folder}/error.log`, '-c', file], { stdio: 'inherit' });
    const nginx = new Nginx(`http://127.0.0.1:${port}`, folder, child);
    // It has bound its port by then. A request would reach the servers behind it, which may not be up yet.
    await eventually(() => existsSync(`${folder}/pid`));
    return nginx;
  }

  /** What it wrote to its error log. */
  get said(): string {
    return readFileSync(join(this.folder, 'error.log'), 'utf8');
  }

  async close(): Promise<void> {
    const gone = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    await gone;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
