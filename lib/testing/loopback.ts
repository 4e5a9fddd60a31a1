const LOOPBACK_HOSTS = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** Whether an address is plain http on this machine: any port, any path, no credentials and no fragment. */
export function isLoopbackUrl(address: string): boolean {
  if (!URL.canParse(address)) {
    return false;
  }
  const { protocol, hostname, username, password, hash } = new URL(address);
  return protocol === 'http:' && LOOPBACK_HOSTS.has(hostname) && `${username}${password}${hash}` === '';
}
