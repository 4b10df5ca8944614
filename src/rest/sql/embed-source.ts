// FROM and join conditions of an embed, correlated with a row of its parent.
import { quoteIdent } from '../../postgres/sql.ts';
import type { PlannedEmbed } from '../plan/plan.ts';
import { isToOne } from '../plan/relationship.ts';
import type { Count } from '../request/query.ts';
import { qualifiedName } from './names.ts';
import type { StatementParts } from './statement.ts';

export type Source = {
  /** The FROM item, with its alias. */
  readonly from: string;
  readonly alias: string;
  readonly where: readonly string[];
  readonly limit?: Count | undefined;
  readonly offset?: Count | undefined;
};

export function embedSource(embed: PlannedEmbed, parentAlias: string, parts: StatementParts): Source {
  const { relationship, node } = embed;
  const { target, junction, routine, columns } = relationship;
  const alias = parts.alias(target.name);
  const on = (left: string, leftColumn: string, right: string, rightColumn: string): string =>
    `${quoteIdent(left)}.${quoteIdent(leftColumn)} = ${quoteIdent(right)}.${quoteIdent(rightColumn)}`;
  const page = { limit: node.limit, offset: node.offset };
  if (routine) {
    const row = `${quoteIdent(parentAlias)}::${qualifiedName(relationship.source)}`;
    const call = `${quoteIdent(routine.schema)}.${quoteIdent(routine.name)}(${row})`;
    return { from: `${call} AS ${quoteIdent(alias)}`, alias, where: [], ...page };
  }
  if (junction) {
    const through = parts.alias(junction.relation.name);
    return {
      from:
        `${qualifiedName(junction.relation)} AS ${quoteIdent(through)}, ` +
        `${qualifiedName(target)} AS ${quoteIdent(alias)}`,
      alias,
      where: [
        ...junction.sourceColumns.map(([source, own]) => on(through, own, parentAlias, source)),
        ...junction.targetColumns.map(([own, foreign]) => on(alias, foreign, through, own)),
      ],
      ...page,
    };
  }
  // A view has no constraint that promises a single row.
  const isOne = isToOne(relationship) && target.kind === 'view';
  const limit = isOne ? oneAtMost(page.limit) : page.limit;
  return {
    from: `${qualifiedName(target)} AS ${quoteIdent(alias)}`,
    alias,
    where: columns.map(([source, foreign]) => on(alias, foreign, parentAlias, source)),
    limit,
    offset: page.offset,
  };
}

function oneAtMost(limit: Count | undefined): Count {
  return limit !== undefined && 'literal' in limit && limit.literal === 0 ? limit : { literal: 1 };
}
