// Rows of the catalog queries.
import type { LiveIndex } from '../indexes.ts';
import type { LivePartition, LivePartitioning } from '../partitions.ts';
import type { LivePublication } from '../publication.ts';
import type { Host } from '../rights/hosts.ts';
import type { LiveTrigger } from '../triggers.ts';
import type { LiveColumn, LivePolicy, LiveTable, LiveType } from './live-schema.ts';

export type RelationRow = Omit<
  LiveTable,
  | 'partitioning'
  | 'granted'
  | 'grants'
  | 'published'
  | 'supabasePublication'
  | 'columns'
  | 'keys'
  | 'foreignKeys'
  | 'checks'
  | 'indexes'
  | 'policies'
  | 'triggers'
> & { readonly grants: string; readonly grantedTo: LiveTable['grants']; readonly everything: string };

export type TypeRow = LiveType;

export type PublicationRow = LivePublication & {
  readonly publication: string;
  readonly relation: string | null;
  readonly whole: boolean;
  readonly events: readonly string[];
};

/** `relation` is the oid of the table. */
type WithRelation = { readonly relation: string };

export type ColumnRow = WithRelation &
  Omit<LiveColumn, 'serial' | 'sequence' | 'sequenceUsers'> & { readonly grantedToOthers: boolean };

export type PartitionRow = WithRelation &
  Omit<LivePartition, 'by'> & {
    readonly key: string | null;
    readonly strategy: LivePartitioning['strategy'] | null;
    readonly keys: readonly string[] | null;
  };

/** Row of `constraintsQuery`. Columns are given by their numbers. */
export type ConstraintRow = WithRelation & {
  readonly label: string;
  readonly type: string;
  readonly columns: number[] | null;
  readonly validated: boolean;
  readonly enforced: boolean;
  readonly deferrable: boolean;
  readonly deferred: boolean;
  readonly nullsNotDistinct: boolean;
  readonly onDelete: string;
  readonly onDeleteColumns: number[] | null;
  readonly onUpdate: string;
  readonly match: string;
  readonly expression: string | null;
  readonly exclusion: {
    readonly definition: string;
    readonly where: string | null;
    readonly keys: readonly string[];
    readonly operators: readonly string[];
  } | null;
  readonly targetSchema: string | null;
  readonly targetTable: string | null;
  readonly target: string;
  readonly targetColumns: number[] | null;
};

export type IndexRow = WithRelation & Omit<LiveIndex, 'columns'> & { readonly columns: number[] };

/** Row of `policiesQuery`. `host` is null unless the table belongs to svc. */
export type PolicyRow = WithRelation & LivePolicy & { readonly host: Host | null };

export type TriggerRow = WithRelation & LiveTrigger;

export type SequenceRow = WithRelation & {
  readonly number: number;
  readonly name: string;
  readonly auto: boolean;
  /** API roles with USAGE and SELECT. */
  readonly users: readonly string[];
};

export type NamespaceRow = { readonly name: string; readonly granted: number };

export type ColumnNameRow = WithRelation & { readonly number: number; readonly name: string };
