// Objects that are served without being managed: names only, since no database is asked here.
import type { KeyPath } from '../mistakes/mistake.ts';
import { toQualified } from '../schema/tables/reference.ts';
import type { CheckContext } from './context.ts';
import { checkName, isReservedSchema } from './name.ts';

type Entry = string | { readonly name: string };

export function checkExposed(context: CheckContext): void {
  const { expose, tables, views, rpc } = context.file;
  const keysOf = (entries: Readonly<Record<string, { readonly schema: string }>>): Set<string> =>
    new Set(Object.entries(entries).map(([name, { schema }]) => `${schema}.${name}`));
  const managed = { tables: keysOf(tables), views: keysOf(views) };
  checkEntries(context, ['expose', 'relations'], expose.relations, managed);
  checkEntries(context, ['expose', 'functions'], expose.functions, { rpc: keysOf(rpc) });
}

function checkEntries(
  context: CheckContext,
  list: KeyPath,
  entries: readonly Entry[],
  managed: Readonly<Record<string, ReadonlySet<string>>>,
): void {
  const seen = new Set<string>();
  entries.forEach((entry, index) => {
    const path = typeof entry === 'string' ? [...list, index] : [...list, index, 'name'];
    const { schema, name } = toQualified(typeof entry === 'string' ? entry : entry.name);
    const key = `${schema}.${name}`;
    const block = Object.keys(managed).find((one) => managed[one]?.has(key));
    checkName(context, path, name);
    if (isReservedSchema(schema)) {
      context.report({
        code: 'reserved-name',
        path,
        message: `nothing of the schema ${schema} can be exposed`,
        hint: 'Make a view of what you need in another schema, and expose that.',
      });
    } else if (block !== undefined && !context.isWritten([block, name, 'expose'])) {
      context.conflict(
        path,
        `${name} is declared under ${block}: already`,
        'Remove it here: what is declared is served.',
      );
    } else if (seen.has(key)) {
      context.report({ code: 'duplicate', path, message: `${name} is listed twice` });
    }
    seen.add(key);
  });
}
