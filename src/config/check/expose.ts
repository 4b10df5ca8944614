// Served objects that svc does not manage. Only names are checked, because no database is accessed here.
import type { KeyPath } from '../mistakes/mistake.ts';
import { listFunctions } from '../schema/functions.ts';
import { toQualified } from '../schema/tables/reference.ts';
import type { CheckContext } from './context.ts';
import { checkName, isReservedSchema } from './name.ts';

type Entry = string | { readonly name: string };

/** Paths of declarations, keyed by `schema.name`. */
type Managed = ReadonlyMap<string, KeyPath>;

export function checkExposed(context: CheckContext): void {
  const { expose, tables, views, rpc } = context.file;
  const toPaths = (block: string, entries: Readonly<Record<string, { readonly schema: string }>>): Managed =>
    new Map(Object.entries(entries).map(([name, { schema }]) => [`${schema}.${name}`, [block, name]]));
  const functions = new Map(
    listFunctions(rpc).map(({ key, name, fn }) => [`${fn.schema}.${name}`, ['rpc', key]]),
  );
  checkEntries(
    context,
    ['expose', 'relations'],
    expose.relations,
    new Map([...toPaths('tables', tables), ...toPaths('views', views)]),
  );
  checkEntries(context, ['expose', 'functions'], expose.functions, functions);
}

function checkEntries(
  context: CheckContext,
  list: KeyPath,
  entries: readonly Entry[],
  managed: Managed,
): void {
  const seen = new Set<string>();
  entries.forEach((entry, index) => {
    const path = typeof entry === 'string' ? [...list, index] : [...list, index, 'name'];
    const { schema, name } = toQualified(typeof entry === 'string' ? entry : entry.name);
    const key = `${schema}.${name}`;
    const declared = managed.get(key);
    checkName(context, path, name);
    if (isReservedSchema(schema)) {
      context.report({
        code: 'reserved-name',
        path,
        message: `objects of the schema ${schema} cannot be exposed`,
        hint: 'Create a view of the data in another schema, and expose the view.',
      });
    } else if (declared !== undefined && !context.isWritten([...declared, 'expose'])) {
      context.conflict(
        path,
        `${name} is already declared under ${declared[0]}:`,
        'Remove it here: declared objects are served.',
      );
    } else if (seen.has(key)) {
      context.reportTwice(path, `${name} is listed twice`);
    }
    seen.add(key);
  });
}
