// CREATE SEQUENCE → keys of `sequences`.
import type { CreateSeqStmt, DefElem, Node } from '@pgsql/types';
import { type Declaration, statementHead, refuse, renamedFrom, type Written } from './declaration.ts';
import { namesIn, type KeyMap, type KeyValue } from './key-nodes.ts';

/** The parser's names of the types. */
const TYPES: Readonly<Record<string, string>> = {
  int2: 'smallint',
  int4: 'integer',
  int8: 'bigint',
  smallint: 'smallint',
  integer: 'integer',
  bigint: 'bigint',
};

export function declareSequence(written: Written, { sequence, options = [] }: CreateSeqStmt): Declaration {
  const { schemaname, relname = '', relpersistence } = sequence ?? {};
  if (relpersistence !== 'p')
    refuse(written, 'svc makes sequences that outlive a crash and a session', 'Write CREATE SEQUENCE.');
  const said: Record<string, KeyValue> = {};
  for (const one of options) if ('DefElem' in one) Object.assign(said, toKeys(written, one.DefElem));
  return {
    kind: 'sequences',
    schema: schemaname ?? 'public',
    name: relname,
    extent: statementHead(written),
    keys: {
      ...(schemaname === undefined || schemaname === 'public' ? {} : { schema: schemaname }),
      ...said,
      renamed_from: renamedFrom(written),
    },
  };
}

function toKeys(written: Written, { defname = '', arg }: DefElem): KeyMap {
  switch (defname) {
    case 'as': {
      const names = arg && 'TypeName' in arg ? namesIn(arg.TypeName.names) : [];
      return { type: TYPES[names.at(-1) ?? ''] ?? names.join('.') };
    }
    case 'start':
    case 'increment':
    case 'cache':
      return { [defname]: readDigits(arg) };
    // NO MINVALUE is the usual one.
    case 'minvalue':
      return { min: readDigits(arg) };
    case 'maxvalue':
      return { max: readDigits(arg) };
    case 'cycle':
      return { cycle: isTrue(arg) ? true : undefined };
    case 'owned_by':
      if (namesOfList(arg).join() === 'none') return {};
      return refuse(
        written,
        'a sequence of a column is made with the column',
        'Give the column the type bigserial, serial or smallserial, or identity.',
      );
    default:
      return refuse(
        written,
        `CREATE SEQUENCE has no ${defname.toUpperCase()} that a file could keep`,
        'Leave it out: where a sequence stands is nothing that the file says.',
      );
  }
}

/** As a number where JavaScript has it exactly. */
function readDigits(arg: Node | undefined): KeyValue {
  if (arg && 'Integer' in arg) return arg.Integer.ival ?? 0;
  if (arg && 'Float' in arg) return arg.Float.fval;
  return undefined;
}

function isTrue(arg: Node | undefined): boolean {
  return arg !== undefined && 'Boolean' in arg && arg.Boolean.boolval === true;
}

function namesOfList(arg: Node | undefined): string[] {
  return arg && 'List' in arg ? namesIn(arg.List.items) : [];
}
