import { expect, test } from 'vitest';
import { viewTargets } from './view-targets.ts';

const VAR = '{VAR :varno 1 :varattno 1 :vartype 23 :varnullingrels (b) :location 12}';

function entry(
  position: number,
  name: string,
  table: number,
  { column = 1, expr = VAR, junk = false } = {},
): string {
  return `{TARGETENTRY :expr ${expr} :resno ${position} :resname ${name} :ressortgroupref 0 :resorigtbl ${table} :resorigcol ${column} :resjunk ${junk}}`;
}

function query(entries: readonly string[], { setOperations = '<>', before = '' } = {}): string {
  return `{QUERY :commandType 1 :utilityStmt <> :hasAggs true ${before}:rtable ({RANGETBLENTRY :alias {ALIAS :aliasname t :colnames ("a" "b\\ c")}}) :targetList (${entries.join(' ')}) :override 0 :setOperations ${setOperations} :stmt_len 0}`;
}

const AGGREF = `{AGGREF :aggfnoid 2147 :args (${entry(1, '<>', 77)} ${entry(2, '<>', 78)}) :aggorder <> :location 3}`;
const SUBLINK = `{SUBLINK :subLinkType 4 :subselect ${query([entry(1, 'inner', 79)])} :location 9}`;
const CONST = '{CONST :consttype 25 :constisnull false :location 3 :constvalue 8 [ 32 0 0 0 40 125 41 58 ]}';

test.each<[string, string, ReturnType<typeof viewTargets>]>([
  [
    'plain columns',
    `(${query([entry(1, 'id', 50), entry(2, 'name', 50, { column: 3 })])})`,
    [
      { position: 1, table: 50, column: 1 },
      { position: 2, table: 50, column: 3 },
    ],
  ],
  [
    'expressions, aggregates, sub-selects and constants have nested entries',
    `(${query([
      entry(1, 'n', 0, { column: 0, expr: AGGREF }),
      entry(2, 's', 0, { column: 0, expr: SUBLINK }),
      entry(3, 'c', 0, { column: 0, expr: CONST }),
      entry(4, 'id', 50),
    ])})`,
    [{ position: 4, table: 50, column: 1 }],
  ],
  [
    'sort keys',
    `(${query([entry(1, 'id', 50), entry(2, '<>', 50, { column: 2, junk: true })])})`,
    [{ position: 1, table: 50, column: 1 }],
  ],
  [
    'names with brackets, spaces, colons and backslashes',
    `(${query([
      entry(1, ':targetList', 50),
      entry(2, 'a\\ \\(b\\}\\\\', 50, { column: 2 }),
      entry(3, ':resorigtbl', 0, { column: 0 }),
      entry(4, '\\<>', 50, { column: 4 }),
    ])})`,
    [
      { position: 1, table: 50, column: 1 },
      { position: 2, table: 50, column: 2 },
      { position: 4, table: 50, column: 4 },
    ],
  ],
  [
    'a common table expression before the target list',
    `(${query([entry(1, 'id', 50)], { before: `:cteList ({COMMONTABLEEXPR :ctename c :ctequery ${query([entry(1, 'x', 99)])}}) ` })})`,
    [{ position: 1, table: 50, column: 1 }],
  ],
  [
    'a set operation',
    `(${query([entry(1, 'id', 50)], { setOperations: '{SETOPERATIONSTMT :op 1 :larg {RANGETBLREF :rtindex 1}}' })})`,
    [],
  ],
  ['no query', '<>', []],
  ['an empty text', '', []],
  ['a text that is cut off', query([entry(1, 'id', 50)]).slice(0, 90), []],
])('%s', (_, tree, expected) => {
  expect(viewTargets(tree)).toEqual(expected);
});
