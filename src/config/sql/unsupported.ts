// Statements that an SQL file cannot hold, and where each belongs.
import type { Node } from '@pgsql/types';

type Home = { readonly what: string; readonly hint: string };

const TABLES = 'Declare it under tables: rows outlive a statement, and svc changes a table step by step.';
const ROWS =
  'What a database begins with belongs under seed, and what changes rows once under migrations.steps.';
const STATE =
  'The file says what is, not what happens: write the CREATE statement as it shall be, and svc finds the way there.';
const CLUSTER = 'It concerns more than this database: have whoever runs the server do it.';

const SUPERUSER =
  'Only a superuser may make it, and svc is none: have whoever runs the server do it, or bring it as an extension.';

const HOMES: Readonly<Record<string, Home>> = {
  CreateStmt: { what: 'CREATE TABLE', hint: TABLES },
  CreateTableAsStmt: { what: 'CREATE TABLE AS', hint: TABLES },
  SelectStmt: { what: 'SELECT', hint: ROWS },
  InsertStmt: { what: 'INSERT', hint: ROWS },
  UpdateStmt: { what: 'UPDATE', hint: ROWS },
  DeleteStmt: { what: 'DELETE', hint: ROWS },
  MergeStmt: { what: 'MERGE', hint: ROWS },
  TruncateStmt: { what: 'TRUNCATE', hint: ROWS },
  CopyStmt: { what: 'COPY', hint: ROWS },
  DoStmt: { what: 'DO', hint: 'What runs once belongs under migrations.steps.' },
  CallStmt: { what: 'CALL', hint: 'What runs once belongs under migrations.steps.' },
  IndexStmt: {
    what: 'CREATE INDEX',
    hint: 'Declare it under tables.<name>.indexes, or views.<name>.indexes of a materialized view.',
  },
  CreatePolicyStmt: {
    what: 'CREATE POLICY',
    hint: 'Declare it under tables.<name>.rls, storage.<bucket>.rls or realtime.rls.',
  },
  CreateExtensionStmt: { what: 'CREATE EXTENSION', hint: 'Declare it under extensions.' },
  CreateSchemaStmt: {
    what: 'CREATE SCHEMA',
    hint: 'Leave it out: a schema is made when something is declared in it.',
  },
  AlterTableStmt: {
    what: 'ALTER',
    hint: 'Row-level security, columns and constraints of a table stand under tables.<name>; everything else as it shall be in its CREATE statement.',
  },
  DropStmt: { what: 'DROP', hint: 'Leave it out: what is in no file any more is dropped.' },
  RenameStmt: {
    what: 'a renaming',
    hint: 'Write -- svc: renamed_from=<old name> before the CREATE statement.',
  },
  TransactionStmt: {
    what: 'BEGIN and COMMIT',
    hint: 'Leave them out: svc applies all of it in one transaction.',
  },
  VariableSetStmt: {
    what: 'SET',
    hint: 'Leave it out: settings of a function stand in its CREATE statement.',
  },
  CreateOpClassStmt: { what: 'CREATE OPERATOR CLASS', hint: SUPERUSER },
  CreateOpFamilyStmt: { what: 'CREATE OPERATOR FAMILY', hint: SUPERUSER },
  AlterOpFamilyStmt: { what: 'ALTER OPERATOR FAMILY', hint: SUPERUSER },
  DefineStmt: { what: 'this CREATE', hint: SUPERUSER },
  CreateRoleStmt: { what: 'CREATE ROLE', hint: CLUSTER },
  AlterRoleStmt: { what: 'ALTER ROLE', hint: CLUSTER },
  CreatedbStmt: { what: 'CREATE DATABASE', hint: CLUSTER },
  CreateEventTrigStmt: { what: 'CREATE EVENT TRIGGER', hint: CLUSTER },
  CreatePublicationStmt: {
    what: 'CREATE PUBLICATION',
    hint: 'Clients are told of the changes of a table with tables.<name>.realtime: true.',
  },
  CreateSubscriptionStmt: { what: 'CREATE SUBSCRIPTION', hint: CLUSTER },
  GrantStmt: { what: 'this GRANT', hint: 'Rights on tables stand under tables.<name>.grants.' },
  AlterDefaultPrivilegesStmt: {
    what: 'ALTER DEFAULT PRIVILEGES',
    hint: 'Leave it out: nothing of the file depends on them.',
  },
  RefreshMatViewStmt: { what: 'REFRESH', hint: 'Run svc refresh, or call it from a function.' },
  NotifyStmt: { what: 'NOTIFY', hint: 'Leave it out: the API knows what svc changes.' },
};

const OTHERS: Home = {
  what: 'this statement',
  hint: 'It takes functions, procedures, views, materialized views, triggers, enum and composite types, domains, sequences, aggregates, extended statistics, range types, rules, operators, casts, collations, text search configurations and dictionaries, their comments and grants.',
};

export function findHome(node: Node): Home {
  const [kind = ''] = Object.keys(node);
  const found = HOMES[kind];
  if (found) return found;
  if (kind.startsWith('Alter')) return { what: 'ALTER', hint: STATE };
  return OTHERS;
}
