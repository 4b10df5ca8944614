// Names of database objects, and renames.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { CheckContext } from './context.ts';

/** PostgreSQL truncates longer names silently (NAMEDATALEN - 1). */
const MAX_NAME_BYTES = 63;

const RESERVED_SCHEMAS: ReadonlySet<string> = new Set([
  'auth',
  'storage',
  'realtime',
  'svc_meta',
  'svc_events',
  'information_schema',
]);

/** Schemas of the product and of PostgreSQL itself. */
export function isReservedSchema(schema: string): boolean {
  return RESERVED_SCHEMAS.has(schema) || schema.startsWith('pg_');
}

export function checkName(
  context: CheckContext,
  path: KeyPath,
  name: string,
  part: 'key' | 'value' = 'value',
): void {
  const bytes = Buffer.byteLength(name);
  if (bytes > MAX_NAME_BYTES) {
    context.report({
      code: 'name-too-long',
      path,
      message: `the name has ${bytes} bytes; PostgreSQL would truncate it to ${MAX_NAME_BYTES}`,
      hint: 'Choose a shorter name.',
      part,
    });
  } else if (name === '' || name.includes('\0')) {
    const hint = 'Choose a name of at least one character.';
    context.badValue(path, `${JSON.stringify(name)} is not a name`, hint, part);
  }
}

const ADVICE: ReadonlyMap<string, string> = new Map([
  ['auth.users', 'Create your own table with on_new_user, which inserts a row for each new user.'],
  ['storage.objects', 'Declare buckets and their rls under storage.'],
  ['realtime.messages', 'Declare private channels and their rls under realtime.'],
]);

/**
 * Checks the name of a table, view, type or sequence. `auth.users` as a key would create a table in the schema public
 * with a dot in its name.
 */
export function checkObjectName(context: CheckContext, path: KeyPath, name: string): void {
  checkName(context, path, name, 'key');
  const [schema = '', ...rest] = name.split('.');
  if (rest.length === 0) return;
  const isPostgres = schema.startsWith('pg_') || schema === 'information_schema';
  if (isReservedSchema(schema)) {
    context.report({
      code: 'reserved-name',
      path,
      message: `${context.show(path, name)} belongs to ${isPostgres ? 'PostgreSQL' : 'svc'}`,
      hint: ADVICE.get(name) ?? 'Choose a name without this prefix.',
      part: 'key',
    });
    return;
  }
  const { tables, views } = context.file;
  const declared = [...Object.values(tables), ...Object.values(views)].some(
    (relation) => relation.schema === schema,
  );
  if (!declared && schema !== 'public') return;
  context.report({
    code: 'bad-value',
    path,
    message: `the name ${context.show(path, name)} contains a dot; it is not ${rest.join('.')} in the schema ${schema}`,
    severity: 'warning',
    hint: `Write ${rest.join('.')} with schema: ${schema}.`,
    part: 'key',
  });
}

export type Renamable = {
  readonly path: KeyPath;
  readonly name: string;
  readonly from: string | undefined;
  /** Distinguishes entries with the same name, such as overloads. */
  readonly among?: string;
};

export function checkRenames(context: CheckContext, entries: readonly Renamable[]): void {
  const findNearest = (name: string, { among }: Renamable): string =>
    among === undefined ? name : JSON.stringify([name, among]);
  const declared = new Set(entries.map((entry) => findNearest(entry.name, entry)));
  const sources = new Map<string, string>();
  for (const entry of entries) {
    const { path, name, from } = entry;
    if (from === undefined) continue;
    const at = [...path, 'renamed_from'];
    checkName(context, at, from);
    const source = findNearest(from, entry);
    const earlier = sources.get(source);
    sources.set(source, name);
    if (from === name) {
      context.conflict(at, `${name} cannot be renamed from itself`, 'Remove renamed_from.');
    } else if (earlier !== undefined) {
      context.conflict(
        at,
        `both ${earlier} and ${name} have renamed_from: ${from}`,
        'Only one of them can keep the data: remove renamed_from from the other.',
      );
    } else if (declared.has(source)) {
      context.conflict(
        at,
        `${from} is still declared here, so ${name} cannot be renamed from it`,
        'Remove the old declaration. To swap two names, deploy a third name first.',
      );
    }
  }
}

export function checkSchema(context: CheckContext, path: KeyPath, schema: string): void {
  if (isReservedSchema(schema)) {
    context.report({
      code: 'reserved-name',
      path,
      message: `the schema ${context.show(path, schema)} is reserved`,
      hint: 'Omit schema to use public, or choose another name.',
    });
  } else checkName(context, path, schema);
}

/** Checks role names. Only the database can check that a role exists. `path`: path of the list or of the only role. */
export function checkRoles(context: CheckContext, path: KeyPath, roles: readonly string[]): void {
  roles.forEach((role, index) => {
    const at = context.isWritten([...path, index]) ? [...path, index] : path;
    checkName(context, at, role);
    if (role === 'public')
      context.badValue(
        at,
        'public includes every role of the database',
        `Name the roles: ${String(path.at(-1))}: [authenticated].`,
      );
    else if (roles.indexOf(role) !== index) context.reportTwice(at, `${role} is listed twice`);
  });
}
