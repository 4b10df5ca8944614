// Names as PostgreSQL keeps them, and renames.
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
      message: `the name is ${bytes} bytes long; PostgreSQL keeps ${MAX_NAME_BYTES} and would cut the rest`,
      hint: 'Choose a shorter name.',
      part,
    });
  } else if (name === '' || name.includes('\0')) {
    const hint = 'Choose a name of at least one character.';
    context.badValue(path, `${JSON.stringify(name)} is not a name`, hint, part);
  }
}

const ADVICE: ReadonlyMap<string, string> = new Map([
  ['auth.users', 'Create a table of your own with on_new_user, which gets a row for each new user.'],
  ['storage.objects', 'Declare buckets and their rls under storage.'],
  ['realtime.messages', 'Declare private channels and their rls under realtime.'],
]);

/**
 * A name of a table, view, type or sequence. `auth.users` would be a table of that name in the schema public, which is not
 * what its author means.
 */
export function checkObjectName(context: CheckContext, path: KeyPath, name: string): void {
  checkName(context, path, name, 'key');
  const [schema = '', ...rest] = name.split('.');
  if (rest.length === 0) return;
  if (isReservedSchema(schema)) {
    context.report({
      code: 'reserved-name',
      path,
      message: `${context.show(path, name)} belongs to ${schema.startsWith('pg_') || schema === 'information_schema' ? 'PostgreSQL' : 'svc'}`,
      hint: ADVICE.get(name) ?? 'Choose a name without this prefix.',
      part: 'key',
    });
    return;
  }
  const { tables, views } = context.file;
  const declared = [...Object.values(tables), ...Object.values(views)].some((one) => one.schema === schema);
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
  /** Which of several of that name, where these are different things. */
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
    const other = sources.get(source);
    sources.set(source, name);
    if (from === name) {
      context.conflict(at, `${name} cannot be renamed from itself`, 'Remove renamed_from.');
    } else if (other !== undefined) {
      context.conflict(
        at,
        `both ${other} and ${name} claim to have been ${from}`,
        'Only one can keep its data: remove renamed_from from the other.',
      );
    } else if (declared.has(source)) {
      context.conflict(
        at,
        `${from} is still declared here, so ${name} cannot have been it`,
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
      message: `the schema ${context.show(path, schema)} is not yours to declare`,
      hint: 'Leave schema out for public, or choose another name.',
    });
  } else checkName(context, path, schema);
}

/** Whether a role exists only the database knows. `path`: of the list, or of the only role. */
export function checkRoles(context: CheckContext, path: KeyPath, roles: readonly string[]): void {
  roles.forEach((role, index) => {
    const at = context.isWritten([...path, index]) ? [...path, index] : path;
    checkName(context, at, role);
    if (role === 'public')
      context.badValue(
        at,
        'public is every role of the database',
        `Name the roles: ${String(path.at(-1))}: [authenticated].`,
      );
    else if (roles.indexOf(role) !== index) context.reportTwice(at, `${role} is listed twice`);
  });
}
