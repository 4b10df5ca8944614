// Statements that SQL files do not support, with a hint for each.
import type { Node } from '@pgsql/types';

type Unsupported = { readonly label: string; readonly hint: string };

const TABLES = 'Declare it under tables: svc keeps the rows and changes tables step by step.';
const ROWS = 'Declare initial data under seed, and one-time changes of rows under migrations.steps.';
const STATE =
  'Change the CREATE statement instead: the file describes the target state, and svc derives the changes.';
const CLUSTER = 'It affects the whole server: ask its administrator to run the statement.';

const SUPERUSER =
  'It requires a superuser, and svc is not one: ask the administrator of the server, or install it as an extension.';

const UNSUPPORTED: Readonly<Record<string, Unsupported>> = {
  CreateStmt: { label: 'CREATE TABLE', hint: TABLES },
  CreateTableAsStmt: { label: 'CREATE TABLE AS', hint: TABLES },
  SelectStmt: { label: 'SELECT', hint: ROWS },
  InsertStmt: { label: 'INSERT', hint: ROWS },
  UpdateStmt: { label: 'UPDATE', hint: ROWS },
  DeleteStmt: { label: 'DELETE', hint: ROWS },
  MergeStmt: { label: 'MERGE', hint: ROWS },
  TruncateStmt: { label: 'TRUNCATE', hint: ROWS },
  CopyStmt: { label: 'COPY', hint: ROWS },
  DoStmt: { label: 'DO', hint: 'Write statements that run once under migrations.steps.' },
  CallStmt: { label: 'CALL', hint: 'Write statements that run once under migrations.steps.' },
  IndexStmt: {
    label: 'CREATE INDEX',
    hint: 'Declare it under tables.<name>.indexes, or views.<name>.indexes of a materialized view.',
  },
  CreatePolicyStmt: {
    label: 'CREATE POLICY',
    hint: 'Declare it under tables.<name>.rls, storage.<bucket>.rls or realtime.rls.',
  },
  CreateExtensionStmt: { label: 'CREATE EXTENSION', hint: 'Declare it under extensions.' },
  CreateSchemaStmt: {
    label: 'CREATE SCHEMA',
    hint: 'Remove it: svc creates the schemas of declared objects.',
  },
  AlterTableStmt: {
    label: 'ALTER',
    hint:
      'Change row-level security, columns and constraints under tables.<name>, and other objects in their CREATE ' +
      'statement.',
  },
  DropStmt: { label: 'DROP', hint: 'Remove it: svc drops objects that are no longer in the files.' },
  RenameStmt: {
    label: 'RENAME',
    hint: 'Write -- svc: renamed_from=<old name> before the CREATE statement.',
  },
  TransactionStmt: {
    label: 'a transaction statement',
    hint: 'Remove them: svc applies all statements in one transaction.',
  },
  VariableSetStmt: {
    label: 'SET',
    hint: 'Remove it. Write settings of a function in its CREATE statement.',
  },
  CreateOpClassStmt: { label: 'CREATE OPERATOR CLASS', hint: SUPERUSER },
  CreateOpFamilyStmt: { label: 'CREATE OPERATOR FAMILY', hint: SUPERUSER },
  AlterOpFamilyStmt: { label: 'ALTER OPERATOR FAMILY', hint: SUPERUSER },
  DefineStmt: { label: 'this CREATE', hint: SUPERUSER },
  CreateRoleStmt: { label: 'CREATE ROLE', hint: CLUSTER },
  AlterRoleStmt: { label: 'ALTER ROLE', hint: CLUSTER },
  CreatedbStmt: { label: 'CREATE DATABASE', hint: CLUSTER },
  CreateEventTrigStmt: { label: 'CREATE EVENT TRIGGER', hint: CLUSTER },
  CreatePublicationStmt: {
    label: 'CREATE PUBLICATION',
    hint: 'To publish the changes of a table, write tables.<name>.realtime: true.',
  },
  CreateSubscriptionStmt: { label: 'CREATE SUBSCRIPTION', hint: CLUSTER },
  GrantStmt: { label: 'this GRANT', hint: 'Grant privileges on tables with tables.<name>.grants.' },
  AlterDefaultPrivilegesStmt: {
    label: 'ALTER DEFAULT PRIVILEGES',
    hint: 'Remove it: svc grants the privileges of its objects explicitly.',
  },
  RefreshMatViewStmt: { label: 'REFRESH', hint: 'Run svc refresh, or call it from a function.' },
  NotifyStmt: { label: 'NOTIFY', hint: 'Remove it: svc notifies the API of its changes.' },
};

const OTHER: Unsupported = {
  label: 'this statement',
  hint:
    'Supported are functions, procedures, views, materialized views, triggers, enum and composite types, domains, ' +
    'sequences, aggregates, extended statistics, range types, rules, operators, casts, collations, text search ' +
    'configurations and dictionaries, and their comments and grants.',
};

/** Returns a label and a hint for a statement without a declaration. */
export function describeUnsupported(node: Node): Unsupported {
  const [kind = ''] = Object.keys(node);
  const found = UNSUPPORTED[kind];
  if (found) return found;
  if (kind.startsWith('Alter')) return { label: 'ALTER', hint: STATE };
  return OTHER;
}
