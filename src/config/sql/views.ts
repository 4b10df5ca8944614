// CREATE VIEW and CREATE MATERIALIZED VIEW → keys of `views`.
import type { CreateTableAsStmt, Node, RangeVar, ViewStmt } from '@pgsql/types';
import { Words } from './statement-text.ts';
import { type Declaration, statementHead, refuse, renamedFrom, type Written } from './declaration.ts';
import { isTrue } from './functions.ts';
import { LocatedValue, type KeyValue } from './key-nodes.ts';

const CHECK_OPTIONS = {
  NO_CHECK_OPTION: undefined,
  LOCAL_CHECK_OPTION: 'local',
  CASCADED_CHECK_OPTION: 'cascaded',
} as const;

export function declareView(written: Written, node: ViewStmt): Declaration {
  const { view, aliases, options = [], withCheckOption = 'NO_CHECK_OPTION' } = node;
  refuseColumns(written, aliases);
  if (view?.relpersistence === 't') refuse(written, 'temporary views are not supported', 'Remove TEMPORARY.');
  let security = 'definer';
  let barrier: boolean | undefined;
  let checkOption: string | undefined = CHECK_OPTIONS[withCheckOption];
  for (const option of options) {
    if (!('DefElem' in option)) continue;
    const { defname = '', arg } = option.DefElem;
    if (defname === 'security_invoker') security = isTrue(option.DefElem) ? 'invoker' : 'definer';
    else if (defname === 'security_barrier') barrier = isTrue(option.DefElem);
    else if (defname === 'check_option')
      checkOption = arg && 'String' in arg ? arg.String.sval?.toLowerCase() : undefined;
    else refuse(written, `svc does not create views with ${defname}`, 'Remove it.');
  }
  const tail = withCheckOption === 'NO_CHECK_OPTION' ? 0 : findEnd(written, 'with');
  return declare(written, view, tail, { security, barrier, check_option: checkOption });
}

export function declareMaterialized(written: Written, { into }: CreateTableAsStmt): Declaration {
  refuseColumns(written, into?.colNames);
  if ((into?.options ?? []).length > 0 || into?.tableSpaceName !== undefined)
    refuse(
      written,
      'svc creates materialized views without storage parameters',
      'Remove WITH and TABLESPACE.',
    );
  const words = Words.of(written.statement);
  const last = words.tokens.at(-1)?.text;
  const tail = last === 'data' ? findEnd(written, 'with') : 0;
  return declare(written, into?.rel, tail, { materialized: true });
}

function declare(
  written: Written,
  relation: RangeVar | undefined,
  tail: number,
  keys: Readonly<Record<string, KeyValue>>,
): Declaration {
  const words = Words.of(written.statement);
  const query = words.after('as').slice(0, tail === 0 ? undefined : -tail);
  const { schemaname: schema = 'public', relname: name = '' } = relation ?? {};
  return {
    kind: 'views',
    schema,
    name,
    extent: statementHead(written),
    keys: {
      ...(schema === 'public' ? {} : { schema }),
      query: new LocatedValue(query.in(written.text), query.extent),
      ...keys,
      renamed_from: renamedFrom(written),
    },
  };
}

/** Returns the number of words from the last occurrence to the end. */
function findEnd({ statement }: Written, word: string): number {
  const index = statement.tokens.findLastIndex(({ text }) => text === word);
  return statement.tokens.length - index;
}

function refuseColumns(written: Written, columns: readonly Node[] | undefined): void {
  if ((columns ?? []).length > 0)
    refuse(
      written,
      'svc uses the column names of the query',
      'Write the names in the query: select price * 2 as double.',
    );
}
