// Seeds: the tables, columns, buckets, users and files that they name must exist.
import type { RawSeedEntry } from '../schema/seed.ts';
import type { KeyPath } from '../mistakes/mistake.ts';
import { didYouMean, type CheckContext } from './context.ts';
import { checkReferencedFile } from './referenced-file.ts';

const ROW_FILE = /\.(?:csv|json|ndjson)$/i;

export function checkSeeds(context: CheckContext): void {
  const names = new Set<string>();
  const people = new Set<string>();
  for (const [index, entry] of context.file.seed.entries()) {
    if (context.isFull) return;
    const path = ['seed', index];
    if (names.has(entry.name))
      context.reportTwice([...path, 'name'], `two entries have the name ${entry.name}`);
    names.add(entry.name);
    checkUsers(context, entry, path, people);
    for (const [table, rows] of Object.entries(entry.rows))
      checkRows(context, table, rows, [...path, 'rows', table], people);
    for (const [bucket, folder] of Object.entries(entry.objects))
      checkFolder(context, bucket, folder, [...path, 'objects', bucket]);
    if (entry.sql !== undefined) checkReferencedFile(context, [...path, 'sql'], entry.sql);
  }
}

function checkUsers(context: CheckContext, entry: RawSeedEntry, path: KeyPath, people: Set<string>): void {
  for (const [index, user] of entry.users.entries()) {
    const at = [...path, 'users', index];
    if (people.has(user.as)) context.reportTwice([...at, 'as'], `two users have the name ${user.as}`);
    people.add(user.as);
    if (!/^[^@\s]+@[^@\s]+$/.test(user.email))
      context.badValue(
        [...at, 'email'],
        `${context.quote([...at, 'email'], user.email)} is not an email address`,
        'Write an address such as ann@example.com.',
      );
    if (Array.from(user.password).length < 6)
      context.badValue(
        [...at, 'password'],
        'the password has fewer than six characters',
        'Use at least six characters, which sign-up requires, too.',
      );
    if (user.id !== undefined && !UUID.test(user.id))
      context.badValue(
        [...at, 'id'],
        `${context.quote([...at, 'id'], user.id)} is not a UUID`,
        'Write a UUID, or omit id: the generated id is the same in every database.',
      );
    if (entry.modes.includes('production') && context.scalar([...at, 'password'])?.substituted === false) {
      context.badValue(
        [...at, 'password'],
        'the password of a production user is written in the file',
        'Write a reference, such as ${SEED_PASSWORD}, or remove production from `modes`.',
      );
    }
  }
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function checkRows(
  context: CheckContext,
  name: string,
  rows: RawSeedEntry['rows'][string],
  path: KeyPath,
  people: ReadonlySet<string>,
): void {
  const table = Object.hasOwn(context.file.tables, name) ? context.file.tables[name] : undefined;
  if (!table) {
    context.report({
      code: 'unknown-reference',
      path,
      message: `there is no table ${name} in this file`,
      hint: didYouMean(name, Object.keys(context.file.tables)) ?? 'Insert rows of other tables with `sql`.',
      part: 'key',
    });
    return;
  }
  if (!Array.isArray(rows)) {
    const at = [...path, 'file'];
    if (checkReferencedFile(context, at, rows.file) && !ROW_FILE.test(rows.file)) {
      context.badValue(
        at,
        `${context.show(at, rows.file)} is not a file of rows`,
        'Name a .csv, .json or .ndjson file.',
      );
    }
    return;
  }
  const columns = new Set(table.fields.map((field) => field.name));
  for (const [index, row] of rows.entries()) {
    for (const [column, value] of Object.entries(row)) {
      const at = [...path, index, column];
      if (!columns.has(column)) {
        context.report({
          code: 'unknown-reference',
          path: at,
          message: `${name} has no column ${column}`,
          hint: didYouMean(column, columns) ?? `Columns of ${name}: ${[...columns].join(', ')}.`,
          part: 'key',
        });
      }
      const person = seedUser(value);
      if (person !== undefined && !people.has(person)) {
        context.report({
          code: 'unknown-reference',
          path: [...at, 'user'],
          message: `neither this entry nor an earlier one declares the user ${person}`,
          hint: didYouMean(person, people) ?? 'Declare the user under `users`, with `as`.',
        });
      }
    }
  }
}

/** `{ user: ann }` → `ann`. */
export function seedUser(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { user, ...rest } = value as Readonly<Record<string, unknown>>;
  return typeof user === 'string' && Object.keys(rest).length === 0 ? user : undefined;
}

function checkFolder(context: CheckContext, bucket: string, folder: string, path: KeyPath): void {
  if (!Object.hasOwn(context.file.storage, bucket)) {
    context.report({
      code: 'unknown-reference',
      path,
      message: `there is no bucket ${bucket} in this file`,
      hint:
        didYouMean(bucket, Object.keys(context.file.storage)) ?? `Declare it: storage: { ${bucket}: {} }.`,
      part: 'key',
    });
  }
  checkReferencedFile(context, path, folder, 'folder');
}
