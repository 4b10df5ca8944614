// Names as PostgreSQL keeps them, and renames.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { CheckContext } from './context.ts';

/** PostgreSQL truncates longer names silently (NAMEDATALEN - 1). */
const LONGEST_NAME_BYTES = 63;

const RESERVED_SCHEMAS: ReadonlySet<string> = new Set([
  'auth',
  'storage',
  'realtime',
  'svc_meta',
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
  if (bytes > LONGEST_NAME_BYTES) {
    context.report({
      code: 'name-too-long',
      path,
      message: `the name is ${bytes} bytes long; PostgreSQL keeps ${LONGEST_NAME_BYTES} and would cut the rest`,
      hint: 'Choose a shorter name.',
      part,
    });
  } else if (name === '' || name.includes('\0')) {
    context.report({ code: 'bad-value', path, message: `${JSON.stringify(name)} is not a name`, part });
  }
}

export type Renamable = {
  readonly path: KeyPath;
  readonly name: string;
  readonly from: string | undefined;
  /** Which of several of that name, where these are different things. */
  readonly among?: string;
};

export function checkRenames(context: CheckContext, entries: readonly Renamable[]): void {
  const oneOf = (name: string, { among }: Renamable): string =>
    among === undefined ? name : JSON.stringify([name, among]);
  const declared = new Set(entries.map((entry) => oneOf(entry.name, entry)));
  const sources = new Map<string, string>();
  for (const entry of entries) {
    const { path, name, from } = entry;
    if (from === undefined) continue;
    const at = [...path, 'renamed_from'];
    checkName(context, at, from);
    const source = oneOf(from, entry);
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
