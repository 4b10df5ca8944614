// Maps the operators of filters to SQL.

export const COMPARE = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'LIKE',
  ilike: 'ILIKE',
  match: '~',
  imatch: '~*',
  isdistinct: 'IS DISTINCT FROM',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
} as const;

export const IS = {
  null: 'NULL',
  not_null: 'NOT NULL',
  true: 'TRUE',
  false: 'FALSE',
  unknown: 'UNKNOWN',
} as const;

export const SEARCH = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
} as const;

export const AGGREGATES = ['sum', 'avg', 'count', 'max', 'min'] as const;

export type CompareOperator = keyof typeof COMPARE;
export type IsValue = keyof typeof IS;
export type SearchOperator = keyof typeof SEARCH;
export type AggregateName = (typeof AGGREGATES)[number];

/** Whether `name` is a key of one of the tables above. */
export function isOperator<T extends object>(table: T, name: string): name is keyof T & string {
  return Object.hasOwn(table, name);
}
