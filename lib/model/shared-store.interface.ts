/** Values shared between the processes of a host. What is stored is sealed by `secrets` first. */
export interface SharedStore {
  /** The value, or `undefined` when absent or expired. */
  get(key: string): Promise<string | undefined>;
  /** Sets the value for `ttl` milliseconds. With `ifAbsent`, only where none is; answers whether it was set. */
  set(key: string, value: string, options: { ttl: number; ifAbsent?: boolean }): Promise<boolean>;
  delete(key: string): Promise<void>;
}
