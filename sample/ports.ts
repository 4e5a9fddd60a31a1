import { createServer } from 'node:net';

/** A mistake of whoever starts the sample: shown as one line, without a stack. */
export class StartError extends Error {}

/** Reads a port from the environment. */
export function portOf(name: string, value: string | undefined, fallback: number): number {
  if (value === undefined || value.trim() === '') {
    return fallback;
  }
  const port = /^\d{1,5}$/.test(value.trim()) ? Number(value) : 0;
  if (port >= 1 && port <= 65_535) {
    return port;
  }
  throw new StartError(`${name} must be a port from 1 to 65535, not ${JSON.stringify(value)}.`);
}

/** Looks before anything is started, so that the answer is a line about the port and nothing else. */
export async function requireFree(name: string, port: number): Promise<void> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (error) => reject(explain(error, name, port)));
    probe.listen(port, '127.0.0.1', resolve);
  });
  await new Promise((resolve) => {
    probe.close(resolve);
  });
}

function explain(error: NodeJS.ErrnoException, name: string, port: number): Error {
  if (error.code === 'EADDRINUSE') {
    return new StartError(`Port ${port} is already in use. Set ${name} to another one.`);
  }
  if (error.code === 'EACCES') {
    return new StartError(`Port ${port} is not open to this user. Set ${name} to one above 1023.`);
  }
  return error;
}
