// The database's structure as comparable values. The same shapes come from the catalog (live) and, through
// elaboration, from the file; every text in them is the server's own print.

export type Live = {
  readonly tables: ReadonlyMap<string, LiveTable>;
  readonly functions: ReadonlyMap<string, readonly LiveFunction[]>;
  readonly schemas: ReadonlyMap<string, LiveSchema>;
  /** Policies of `storage.objects`, all of them; the engine touches only its own. */
  readonly storagePolicies: readonly LivePolicy[];
  readonly serverVersion: number;
};

export type LiveSchema = { readonly name: string; readonly usageGranted: boolean };

export type LiveTable = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly partitioned: boolean;
  readonly rowSecurity: boolean;
  /** Its owner is held to the policies, too; the file cannot ask for that, and svc works as the owner. */
  readonly rowSecurityForced: boolean;
  /** The three API roles have exactly what they should, and PUBLIC nothing. */
  readonly granted: 'api' | 'none' | 'other';
  readonly estimatedRows: number;
  readonly bytes: number;
  readonly columns: ReadonlyMap<string, LiveColumn>;
  readonly keys: readonly LiveKey[];
  readonly foreignKeys: readonly LiveForeignKey[];
  readonly checks: readonly LiveCheck[];
  readonly indexes: readonly LiveIndex[];
  readonly policies: readonly LivePolicy[];
  readonly triggers: readonly LiveTrigger[];
};

export type LiveColumn = {
  readonly name: string;
  readonly number: number;
  readonly type: string;
  readonly category: string;
  readonly notNull: boolean;
  readonly default: string | null;
  /** An owned sequence feeds it: serial, or an identity column, which counts as the same. */
  readonly serial: boolean;
  readonly identity: boolean;
  readonly sequence: string | null;
  readonly sequenceGranted: boolean;
  readonly generated: boolean;
};

export type LiveKey = {
  readonly label: string;
  readonly kind: 'primary' | 'unique';
  readonly columns: readonly string[];
  /** Deferrable, or with other attributes the file cannot say. */
  readonly special: boolean;
};

export type LiveForeignKey = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly targetSchema: string;
  readonly targetTable: string;
  readonly targetColumns: readonly string[];
  readonly onDelete: 'cascade' | 'restrict' | 'set_null' | 'other';
  readonly validated: boolean;
  /** False when somebody turned its triggers off, or declared it NOT ENFORCED: no row is checked. */
  readonly enforced: boolean;
  readonly special: boolean;
};

export type LiveCheck = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly expression: string;
  readonly validated: boolean;
  readonly enforced: boolean;
};

export type LiveIndex = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly predicate: string | null;
  readonly valid: boolean;
  /** Expressions, sort orders, operator classes, INCLUDE and other methods: nothing the file can say. */
  readonly special: boolean;
};

export type Command = 'select' | 'insert' | 'update' | 'delete' | 'all';

export type LivePolicy = {
  readonly label: string;
  readonly command: Command;
  readonly permissive: boolean;
  readonly roles: string;
  readonly using: string | null;
  readonly check: string | null;
};

export type LiveTrigger = { readonly label: string; readonly definition: string; readonly enabled: boolean };

export type LiveFunction = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** As `pg_get_function_arguments` prints: names, types and defaults. */
  readonly arguments: string;
  readonly identityArguments: string;
  readonly argumentTypes: readonly string[];
  readonly argumentNames: readonly string[];
  readonly defaults: number;
  readonly result: string;
  readonly language: string;
  readonly volatility: string;
  readonly definer: boolean;
  readonly settings: readonly string[];
  readonly body: string;
  readonly granted: boolean;
};

export const API_ROLES = ['anon', 'authenticated', 'service_role'] as const;

/** Table policies bind to these; service_role passes by attribute, the owner by ownership. */
export const POLICY_ROLES = 'anon,authenticated';
