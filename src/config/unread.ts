// Tables of a file that was read before. Reading what has changed takes them as they were.
import type { Table } from './config.ts';
import type { SvcFile } from './schema/schema.ts';

export type UnreadTable = {
  /** As the schema gave it. */
  readonly raw: SvcFile['tables'][string];
  /** With its places in the text of today. */
  readonly table: Table;
};

export type Unread = {
  readonly tables: ReadonlyMap<string, UnreadTable>;
  /** All tables of the YAML texts, in their order. */
  readonly names: readonly string[];
  /** Of the text of a file what is to be read: the same lines, without those tables. `path` is empty for svc.yaml. */
  readonly toRead: (path: string, text: string) => string;
};
