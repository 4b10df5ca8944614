// One difference between the file and the database, as a person would name it. A change says what must become true; the
// plan decides which statements do it, and under which locks.
import type { LiveTrigger } from '../schema/triggers.ts';
import type { DesiredIndex, LiveIndex } from '../schema/indexes.ts';
import type {
  DesiredCheck,
  DesiredColumn,
  DesiredExclusion,
  DesiredForeignKey,
  DesiredFunction,
  DesiredHostedPolicy,
  DesiredKey,
  DesiredPolicy,
  DesiredReference,
  DesiredTable,
  DesiredType,
} from '../schema/desired.ts';
import type {
  LiveCheck,
  LiveColumn,
  LiveExclusion,
  LiveExtension,
  LiveForeignKey,
  LiveFunction,
  LiveKey,
  LivePolicy,
  LiveTable,
  LiveType,
} from '../schema/live/live-schema.ts';
import type { Host } from '../schema/rights/hosts.ts';
import type { DesiredPartition, LivePartition } from '../schema/partitions.ts';
import type { Attribute, ExtensionModel, KeptModel, SequenceModel } from '../schema/model.ts';
import type { LiveSequence } from '../schema/sequences.ts';
import type { DesiredStatement, LiveStatement } from '../schema/statements.ts';
import type { DomainCheck } from '../schema/types.ts';
import type { NewUserTrigger, RowTrigger } from '../schema/row-triggers.ts';
import type { DesiredTrigger } from '../schema/triggers.ts';
import type { DesiredView, LiveView } from '../schema/views.ts';

export type SequenceChange =
  | { readonly kind: 'create-sequence'; readonly sequence: SequenceModel }
  | { readonly kind: 'alter-sequence'; readonly sequence: SequenceModel; readonly live: LiveSequence }
  /** Of one that belongs to no column; the other is 'grant-sequence'. */
  | { readonly kind: 'grant-free-sequence'; readonly sequence: SequenceModel }
  | { readonly kind: 'comment-sequence'; readonly sequence: SequenceModel };

export type StatementChange =
  | (OfTable & {
      readonly kind: 'create-statement';
      readonly statement: DesiredStatement;
      readonly live: null;
    })
  | (OfTable & {
      readonly kind: 'recreate-statement';
      readonly statement: DesiredStatement;
      readonly live: LiveStatement;
    })
  /** Of a text search configuration: its mappings. */
  | {
      readonly kind: 'alter-statement';
      readonly statement: DesiredStatement;
      readonly live: LiveStatement;
    }
  /** Of an aggregate. */
  | { readonly kind: 'grant-statement'; readonly statement: DesiredStatement }
  | { readonly kind: 'comment-statement'; readonly statement: DesiredStatement }
  | (OfTable & { readonly kind: 'drop-statement'; readonly live: LiveStatement });

/** `locked`: the table that is there and that a rule or statistics are of. */
type OfTable = { readonly locked: string | null };

export type Change =
  | TypeDefinitionChange
  | SequenceChange
  | StatementChange
  | { readonly kind: 'create-schema' | 'grant-schema'; readonly schema: string }
  | { readonly kind: 'create-extension'; readonly extension: ExtensionModel }
  | {
      readonly kind: 'update-extension';
      readonly extension: ExtensionModel;
      readonly installed: LiveExtension;
    }
  | { readonly kind: 'create-table'; readonly table: DesiredTable }
  | { readonly kind: 'retire-table'; readonly live: LiveTable }
  | (OnTable & {
      readonly kind: 'add-partition';
      readonly partition: DesiredPartition;
      /** The table that it was since it left the file: it comes back with its rows. */
      readonly back: LiveTable | null;
    })
  /** Of a new table: what it needs from now on. */
  | (OnTable & { readonly kind: 'make-partitions'; readonly kept: KeptModel })
  | (OnTable & { readonly kind: 'retire-partition'; readonly partition: LivePartition })
  | (OnTable & {
      readonly kind: 'rename-partition';
      readonly partition: LivePartition;
      readonly name: string;
    })
  | (OnTable & {
      readonly kind: 'grant-table';
      /** What roles could then do that neither the database nor policies let them do now: `update for anon`. */
      readonly opens: readonly string[];
    })
  | AddColumnChange
  | TypeChange
  | (OnColumn & { readonly kind: 'set-not-null' | 'drop-not-null' | 'set-default' | 'drop-default' })
  | (OnColumn & {
      readonly kind: 'make-serial' | 'make-identity' | 'set-identity' | 'drop-serial' | 'grant-sequence';
    })
  | (OnColumn & { readonly kind: 'set-expression' })
  /** Of a generated column that becomes a plain one: its values stay. */
  | (OnColumn & { readonly kind: 'drop-expression' })
  | RemakeChange
  | (OnTable & {
      readonly kind: 'set-comment';
      /** Null: of the table. */
      readonly commented: DesiredColumn | null;
      readonly comment: string | null;
    })
  | (OnTable & {
      readonly kind: 'set-storage';
      readonly set: Readonly<Record<string, string>>;
      /** Parameters that have their default again. */
      readonly reset: readonly string[];
    })
  | (OnTable & { readonly kind: 'set-logged'; readonly logged: boolean })
  | (OnTable & { readonly kind: 'retire-column'; readonly liveColumn: LiveColumn })
  | (OnColumn & {
      /** A backfill that an earlier run began. */
      readonly kind: 'resume-backfill';
      readonly value: string;
    })
  | (OnTable & { readonly kind: 'add-key'; readonly key: DesiredKey })
  | (OnTable & { readonly kind: 'drop-key'; readonly key: LiveKey })
  | (OnTable & { readonly kind: 'add-foreign-key'; readonly foreignKey: DesiredForeignKey })
  | (OnTable & {
      readonly kind: 'drop-foreign-key' | 'validate-foreign-key';
      readonly foreignKey: LiveForeignKey;
    })
  | (OnTable & {
      readonly kind: 'add-check';
      readonly check: DesiredCheck;
      /** The check of the same label that this one replaces. */
      readonly replaces: LiveCheck | null;
    })
  | (OnTable & { readonly kind: 'add-exclusion'; readonly exclusion: DesiredExclusion })
  | (OnTable & { readonly kind: 'drop-exclusion'; readonly exclusion: LiveExclusion })
  | (OnTable & { readonly kind: 'drop-check' | 'validate-check'; readonly check: LiveCheck })
  | (OnTable & {
      readonly kind: 'add-index';
      readonly index: DesiredIndex;
      /** The one that has its label and goes. */
      readonly holder: LiveIndex | null;
    })
  | (OnTable & {
      readonly kind: 'drop-index';
      readonly index: LiveIndex;
      /** Another index is built in this run: this one goes after that. */
      readonly isReplaced: boolean;
    })
  | (OnTable & { readonly kind: 'rename-index'; readonly index: LiveIndex; readonly label: string })
  | { readonly kind: 'create-publication'; readonly serverVersion: number }
  | { readonly kind: 'publish-generated' }
  | (OnTable & { readonly kind: 'publish' })
  /** `isPart`: it comes back as a whole. */
  | (OnTable & { readonly kind: 'unpublish'; readonly isPart: boolean })
  /** Its primary key is made anew. */
  | (OnTable & { readonly kind: 'keep-replica-identity' })
  | (OnTable & { readonly kind: 'set-replica-identity'; readonly identity: 'default' | 'full' })
  | (OnTable & { readonly kind: 'enable-rls' | 'disable-rls' | 'unforce-rls' })
  | (OnTable & {
      readonly kind: 'create-policy';
      readonly policy: DesiredPolicy;
      readonly label: string;
      readonly replaces: LivePolicy | null;
    })
  | (OnTable & { readonly kind: 'drop-policy'; readonly policy: LivePolicy })
  | (OnTable & { readonly kind: 'drop-reference'; readonly trigger: LiveTrigger })
  /** Suspending drops its triggers while the type of a column they watch changes; the rows stay recorded. */
  | (OnTable & {
      readonly kind: 'add-reference' | 'suspend-reference';
      readonly reference: DesiredReference;
    })
  | {
      readonly kind: 'create-function' | 'replace-function' | 'recreate-function';
      readonly fn: DesiredFunction;
      readonly live: LiveFunction | null;
    }
  | {
      readonly kind: 'create-view';
      readonly view: DesiredView;
      readonly live: null;
    }
  | {
      readonly kind: 'replace-view' | 'refresh-view' | 'grant-view' | 'comment-view';
      readonly view: DesiredView;
      readonly live: LiveView;
    }
  | {
      readonly kind: 'recreate-view';
      readonly view: DesiredView;
      readonly live: LiveView;
      /** What it reads changes, so it cannot stay until another one takes its place. */
      readonly isForced: boolean;
    }
  | {
      readonly kind: 'add-view-index';
      readonly view: DesiredView;
      readonly live: LiveView;
      readonly index: DesiredIndex;
    }
  | {
      readonly kind: 'drop-view-index';
      readonly view: DesiredView;
      readonly live: LiveView;
      readonly index: LiveIndex;
    }
  | {
      readonly kind: 'rename-view-index';
      readonly view: DesiredView;
      readonly live: LiveView;
      readonly index: LiveIndex;
      readonly label: string;
    }
  | (SetTrigger & {
      readonly kind: 'set-view-trigger';
      readonly view: DesiredView;
      /** Null for a view that this run makes. */
      readonly live: LiveView | null;
    })
  | (DropTrigger & {
      readonly kind: 'drop-view-trigger';
      readonly view: DesiredView;
      readonly live: LiveView;
    })
  | { readonly kind: 'drop-view'; readonly live: LiveView }
  | DropRetiredChange
  | { readonly kind: 'grant-function'; readonly fn: DesiredFunction; readonly live: LiveFunction }
  | { readonly kind: 'drop-function'; readonly live: LiveFunction }
  | (OnTable & { readonly kind: 'set-on-update'; readonly trigger: RowTrigger })
  | (OnTable & { readonly kind: 'drop-on-update'; readonly trigger: LiveTrigger })
  | {
      readonly kind: 'set-new-user';
      readonly trigger: NewUserTrigger;
      /** No row was made for the users until now. */
      readonly isNew: boolean;
    }
  | { readonly kind: 'drop-new-user'; readonly trigger: LiveTrigger }
  | (OnTable & SetTrigger & { readonly kind: 'set-trigger' })
  | (OnTable & DropTrigger & { readonly kind: 'drop-trigger' })
  | (SetTrigger & { readonly kind: 'set-user-trigger' })
  | (DropTrigger & { readonly kind: 'drop-user-trigger' })
  | {
      readonly kind: 'create-hosted-policy';
      readonly host: Host;
      readonly policy: DesiredHostedPolicy;
      readonly label: string;
    }
  | { readonly kind: 'drop-hosted-policy'; readonly host: Host; readonly policy: LivePolicy };

/** Of a type that the file declares or declared, not of the type of a column. */
export type TypeDefinitionChange =
  | { readonly kind: 'create-type'; readonly type: DesiredType }
  | {
      readonly kind: 'add-values';
      readonly type: DesiredType;
      readonly live: LiveType;
      /** In the order in which they are added; each comes before the first that follows and is there. */
      readonly values: ReadonlyArray<{ readonly value: string; readonly before: string | null }>;
    }
  /** One that nothing uses. */
  | { readonly kind: 'recreate-type'; readonly type: DesiredType }
  | {
      readonly kind: 'add-domain-check' | 'validate-domain-check';
      readonly type: DesiredType;
      readonly check: DomainCheck;
      /** Tables with columns of the domain. */
      readonly users: readonly LiveTable[];
    }
  | { readonly kind: 'drop-domain-check'; readonly type: DesiredType; readonly label: string }
  | { readonly kind: 'set-domain-default'; readonly type: DesiredType; readonly value: string | null }
  | {
      readonly kind: 'set-domain-not-null';
      readonly type: DesiredType;
      readonly notNull: boolean;
      readonly users: readonly LiveTable[];
    }
  | { readonly kind: 'add-attribute'; readonly type: DesiredType; readonly attribute: Attribute }
  | { readonly kind: 'comment-type'; readonly type: DesiredType }
  | { readonly kind: 'drop-type'; readonly live: LiveType };
type SetTrigger = {
  readonly trigger: DesiredTrigger;
  /** The one of its name. */
  readonly found: LiveTrigger | null;
  /** That one is dropped by this run, because something it depends on changes. */
  readonly isRemade: boolean;
};

type DropTrigger = {
  readonly trigger: LiveTrigger;
  /** What is made in its place. */
  readonly next: DesiredTrigger | null;
};

/** Something retired that depends on what changes or goes. If its table comes back, the file declares it again. */
export type DropRetiredChange = {
  readonly kind: 'drop-retired';
  readonly what: 'policy' | 'check' | 'index' | 'default' | 'foreign key' | 'trigger';
  /** The table it is part of. */
  readonly home: { readonly schema: string; readonly name: string };
  /** Of a default: its column. */
  readonly label: string;
};

export type AddColumnChange = OnTable & { readonly kind: 'add-column'; readonly column: DesiredColumn };

/** Dropped and added, because no statement changes it. */
export type RemakeChange = OnColumn & { readonly kind: 'remake-column' };

export type TypeChange = OnColumn & { readonly kind: 'change-type' };

type OnTable = {
  readonly table: DesiredTable;
  /** Null for a table that this run creates. */
  readonly live: LiveTable | null;
};

export type OnColumn = OnTable & { readonly column: DesiredColumn; readonly liveColumn: LiveColumn };
