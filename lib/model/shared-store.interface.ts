/**
 * Stores what the processes of a host share. Access tokens are sealed with `secrets` before they are stored; used login states and
 * logouts are not: their key is a digest, their value `1`, or the time of the end.
 */
export interface SharedStore {
  /** The value, or `undefined` when absent or expired. */
  get(key: string): Promise<string | undefined>;
  /**
   * Sets the value for `ttl` ms. With `ifAbsent`, only where there is none. Returns whether it was set. Where it was not, `get` must
   * show a value that another process has set.
   */
  set(key: string, value: string, options: { ttl: number; ifAbsent?: boolean }): Promise<boolean>;
  /** Deletes the value, if there is one. */
  delete(key: string): Promise<void>;
}
