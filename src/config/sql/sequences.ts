// CREATE SEQUENCE → keys of `sequences`.
import type { CreateSeqStmt, DefElem, Node } from '@pgsql/types';
import { type Declaration, statementHead, refuse, renamedFrom, type Written } from './declaration.ts';
import { namesIn, type KeyMap, type KeyValue } from './key-nodes.ts';

/** Names of the types in the parser. */
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
    refuse(
      written,
      'a temporary or unlogged sequence is not supported',
      'Write CREATE SEQUENCE without TEMPORARY or UNLOGGED.',
    );
  const keys: Record<string, KeyValue> = {};
  for (const option of options) if ('DefElem' in option) Object.assign(keys, toKeys(written, option.DefElem));
  return {
    kind: 'sequences',
    schema: schemaname ?? 'public',
    name: relname,
    extent: statementHead(written),
    keys: {
      ...(schemaname === undefined || schemaname === 'public' ? {} : { schema: schemaname }),
      ...keys,
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
    // NO MINVALUE is the default.
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
        'a sequence with OWNED BY is created with its column',
        'Use the type bigserial, serial or smallserial for the column, or identity.',
      );
    default:
      return refuse(
        written,
        `the option ${defname.toUpperCase()} of CREATE SEQUENCE is not supported`,
        'Remove it. The file does not set the current value of a sequence.',
      );
  }
}

/** Returns a number if JavaScript represents it exactly, otherwise its digits. */
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
