// What a backup of rows knows of its tables.
import { text } from 'node:stream/consumers';
import type { SchemaModel } from '../../migrate/schema/model.ts';
import type { OpenFile } from '../seal.ts';

export const SCHEMA = 'schema.json';

/** Their numbers mean nothing elsewhere. */
export const OWN_SEQUENCES_APART = ['svc_meta', 'realtime'];

export type SavedTable = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** Relative to the folder of the backup: gzip of COPY's text. */
  readonly file: string;
  readonly rows: number;
  /** Of a partitioned table, parents before their parts: those by time are not in the model. Absent: there are none. */
  readonly partitions?: readonly SavedPartition[];
};

export type SavedPartition = {
  readonly schema: string;
  readonly name: string;
  /** What it is a part of. */
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

/** Its hash has been compared. */
export async function readSaved(folder: string, open: OpenFile): Promise<SavedDatabase> {
  return JSON.parse(await text(await open(`${folder}/${SCHEMA}`))) as SavedDatabase;
}
