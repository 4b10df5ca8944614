// Description of the tables in a backup of rows.
import { text } from 'node:stream/consumers';
import type { SchemaModel } from '../../migrate/schema/model.ts';
import type { OpenFile } from '../seal.ts';

export const SCHEMA = 'schema.json';

/** Schemas whose sequences are not saved, because their numbers have no meaning in another database. */
export const OWN_SEQUENCES_APART = ['svc_meta', 'realtime'];

export type SavedTable = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** Relative to the folder of the backup: gzip of COPY's text. */
  readonly file: string;
  readonly rows: number;
  /**
   * Partitions, parents before their children. The model does not contain partitions by time. Absent without
   * partitions.
   */
  readonly partitions?: readonly SavedPartition[];
};

export type SavedPartition = {
  readonly schema: string;
  readonly name: string;
  /** The parent table. */
  readonly of: readonly [schema: string, name: string];
  /** `FOR VALUES FROM (…) TO (…)`, or `DEFAULT`. */
  readonly bound: string;
  /** `LIST (kind)`; null: it holds rows itself. */
  readonly by: string | null;
};

export type SavedDatabase = {
  readonly model: SchemaModel;
  readonly tables: readonly SavedTable[];
  readonly sequences: ReadonlyArray<{ readonly key: string; readonly last: string | null }>;
};

/** Reads the description. The caller has already compared its hash. */
export async function readSaved(folder: string, open: OpenFile): Promise<SavedDatabase> {
  return JSON.parse(await text(await open(`${folder}/${SCHEMA}`))) as SavedDatabase;
}
