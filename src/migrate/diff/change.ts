// Changes: differences between the file and the database. A change describes the desired result. The plan determines
// the statements and locks.
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
import type { Attribute, ExtensionModel, PartitionSchedule, SequenceModel } from '../schema/model.ts';
import type { LiveSequence } from '../schema/sequences.ts';
import type { DesiredStatement, LiveStatement } from '../schema/statements.ts';
import type { Alteration, AttributeKey } from '../schema/sql/table-attributes.ts';
import type { DomainCheck } from '../schema/types.ts';
import type { NewUserTrigger, RowTrigger } from '../schema/row-triggers.ts';
import type { DesiredTrigger } from '../schema/triggers.ts';
import type { DesiredView, LiveView } from '../schema/views.ts';

export type SequenceChange =
  | { readonly kind: 'create-sequence'; readonly sequence: SequenceModel }
  | { readonly kind: 'alter-sequence'; readonly sequence: SequenceModel; readonly live: LiveSequence }
  /** Grants on a sequence that belongs to no column. `grant-sequence` covers sequences of columns. */
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
  /** Changes the mappings of a text search configuration. */
  | {
      readonly kind: 'alter-statement';
      readonly statement: DesiredStatement;
      readonly live: LiveStatement;
    }
  /** Grants on an aggregate. */
  | { readonly kind: 'grant-statement'; readonly statement: DesiredStatement }
  | { readonly kind: 'comment-statement'; readonly statement: DesiredStatement }
  | (OfTable & { readonly kind: 'drop-statement'; readonly live: LiveStatement });

/** `locked`: key of the existing table or view of a rule or of statistics. */
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
      /** The table to attach, if the partition left the file before and was kept with its rows. */
      readonly back: LiveTable | null;
    })
  /** Creates the first partitions of a new table with a schedule. */
  | (OnTable & { readonly kind: 'make-partitions'; readonly schedule: PartitionSchedule })
  | (OnTable & { readonly kind: 'retire-partition'; readonly partition: LivePartition })
  | (OnTable & {
      readonly kind: 'rename-partition';
      readonly partition: LivePartition;
      readonly name: string;
    })
  | (OnTable & {
      readonly kind: 'grant-table';
      /** Privileges that roles gain and that policies do not restrict: `update for anon`. */
      readonly opens: readonly string[];
    })
  | AddColumnChange
  | TypeChange
  | (OnColumn & { readonly kind: 'set-not-null' | 'drop-not-null' | 'set-default' | 'drop-default' })
  | (OnColumn & {
      readonly kind: 'make-serial' | 'make-identity' | 'set-identity' | 'drop-serial' | 'grant-sequence';
    })
  | (OnColumn & { readonly kind: 'set-expression' })
  /** Makes a generated column a plain column. Its values stay. */
  | (OnColumn & { readonly kind: 'drop-expression' })
  | RemakeChange
  | (OnTable & {
      readonly kind: 'set-comment';
      /** Null for a comment on the table. */
      readonly commented: DesiredColumn | null;
      readonly comment: string | null;
    })
  | (OnTable & {
      readonly kind: 'set-attribute';
      readonly attribute: AttributeKey;
      readonly alteration: Alteration;
    })
  | (OnTable & { readonly kind: 'retire-column'; readonly liveColumn: LiveColumn })
  | (OnColumn & {
      /** Continues a backfill that an earlier run started. */
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
      /** Existing check that the new one replaces. */
      readonly replaces: LiveCheck | null;
    })
  | (OnTable & { readonly kind: 'add-exclusion'; readonly exclusion: DesiredExclusion })
  | (OnTable & { readonly kind: 'drop-exclusion'; readonly exclusion: LiveExclusion })
  | (OnTable & { readonly kind: 'drop-check' | 'validate-check'; readonly check: LiveCheck })
  | (OnTable & {
      readonly kind: 'add-index';
      readonly index: DesiredIndex;
      /** Existing index with the same label, which is dropped in this run. */
      readonly holder: LiveIndex | null;
    })
  | (OnTable & {
      readonly kind: 'drop-index';
      readonly index: LiveIndex;
      /** True if this run builds another index. The old index is then dropped after that. */
      readonly isReplaced: boolean;
    })
  | (OnTable & { readonly kind: 'rename-index'; readonly index: LiveIndex; readonly label: string })
  | { readonly kind: 'create-publication'; readonly serverVersion: number }
  | { readonly kind: 'publish-generated' }
  | (OnTable & { readonly kind: 'publish' })
  /** `isPart`: the table is published only in part, and a `publish` change follows. */
  | (OnTable & { readonly kind: 'unpublish'; readonly isPart: boolean })
  /** Keeps the replica identity while the primary key is replaced. */
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
  /** `suspend-reference` drops the triggers while the type of a tracked column changes. Recorded references stay. */
  | (OnTable & {
      readonly kind: 'add-reference' | 'suspend-reference';
      readonly reference: DesiredReference;
    })
  | {
      readonly kind: 'create-function' | 'replace-function' | 'recreate-function';
      readonly fn: DesiredFunction;
      readonly live: LiveFunction | null;
      /** API roles that gain EXECUTE when the function is recreated. */
      readonly opens?: readonly string[];
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
      /** True if a relation that it reads changes, so the old view must be dropped before the new one is created. */
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
      /** Null for a view that this run creates. */
      readonly live: LiveView | null;
    })
  | (DropTrigger & {
      readonly kind: 'drop-view-trigger';
      readonly view: DesiredView;
      readonly live: LiveView;
    })
  | { readonly kind: 'drop-view'; readonly live: LiveView }
  | DropRetiredChange
  | {
      readonly kind: 'grant-function';
      readonly fn: DesiredFunction;
      readonly live: LiveFunction;
      /** API roles that gain EXECUTE. */
      readonly opens: readonly string[];
    }
  | { readonly kind: 'drop-function'; readonly live: LiveFunction }
  | (OnTable & { readonly kind: 'set-on-update'; readonly trigger: RowTrigger })
  | (OnTable & { readonly kind: 'drop-on-update'; readonly trigger: LiveTrigger })
  | {
      readonly kind: 'set-new-user';
      readonly trigger: NewUserTrigger;
      /** True if the table had no `on_new_user` trigger. */
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

/** Change of a declared type. `TypeChange` is the change of a column's type. */
export type TypeDefinitionChange =
  | { readonly kind: 'create-type'; readonly type: DesiredType }
  | {
      readonly kind: 'add-values';
      readonly type: DesiredType;
      readonly live: LiveType;
      /** Values in the order of addition. `before` is the next existing label, or null to append the value. */
      readonly values: ReadonlyArray<{ readonly value: string; readonly before: string | null }>;
    }
  /** Drops and creates an unused type. */
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
  /** Existing trigger with the same name. */
  readonly found: LiveTrigger | null;
  /** True if this run drops the existing trigger, because an object that it depends on changes. */
  readonly isRemade: boolean;
};

type DropTrigger = {
  readonly trigger: LiveTrigger;
  /** Trigger that replaces it. */
  readonly next: DesiredTrigger | null;
};

/** Drops a part of a retired table or column that depends on a changed or removed object. */
export type DropRetiredChange = {
  readonly kind: 'drop-retired';
  readonly what: 'policy' | 'check' | 'index' | 'default' | 'foreign key' | 'trigger';
  /** Table of the object. */
  readonly home: { readonly schema: string; readonly name: string };
  /** Label of the object. For a default, the name of its column. */
  readonly label: string;
};

export type AddColumnChange = OnTable & { readonly kind: 'add-column'; readonly column: DesiredColumn };

/** Drops and adds a column, because no statement can change it. */
export type RemakeChange = OnColumn & { readonly kind: 'remake-column' };

export type TypeChange = OnColumn & { readonly kind: 'change-type' };

type OnTable = {
  readonly table: DesiredTable;
  /** Null for a table that this run creates. */
  readonly live: LiveTable | null;
};

export type OnColumn = OnTable & { readonly column: DesiredColumn; readonly liveColumn: LiveColumn };
