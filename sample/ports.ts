import { createServer } from 'node:net';

/** Invalid configuration of the sample. It is shown as one line without a stack trace. */
export class StartError extends Error {}

/**
 * Parses the value of an environment variable as a port.
 *
 * @throws StartError if the value is not an integer from 1 to 65535.
 */
export function portOf(name: string, value: string | undefined, defaultPort: number): number {
  if (value === undefined || value.trim() === '') {
    return defaultPort;
  }
  const port = /^\d{1,5}$/.test(value.trim()) ? Number(value) : 0;
  if (port >= 1 && port <= 65_535) {
    return port;
  }
  throw new StartError(`${name} must be a port from 1 to 65535, not ${JSON.stringify(value)}.`);
}

/**
 * Checks that a port is free before anything is started, so that the only output is the error about the port.
 *
 * @throws StartError if the port is in use or not permitted.
 */
export async function requireFree(name: string, port: number): Promise<void> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (error) => reject(startErrorOf(error, name, port)));
    probe.listen(port, '127.0.0.1', resolve);
  });
  await new Promise((resolve) => {
    probe.close(resolve);
  });
}

function startErrorOf(error: NodeJS.ErrnoException, name: string, port: number): Error {
  if (error.code === 'EADDRINUSE') {
    return new StartError(`Port ${port} is already in use. Set ${name} to another one.`);
  }
  if (error.code === 'EACCES') {
    return new StartError(`This user may not listen on port ${port}. Set ${name} to a port above 1023.`);
  }
  return error;
}
