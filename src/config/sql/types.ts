// CREATE TYPE and CREATE DOMAIN → keys of `types`.
import type { CompositeTypeStmt, CreateDomainStmt, CreateEnumStmt } from '@pgsql/types';
import { Words } from './statement-text.ts';
import { type Declaration, statementHead, refuse, renamedFrom, type Written } from './declaration.ts';
import { namesIn, LocatedValue, type KeyMap, type KeyValue } from './key-nodes.ts';

export function declareEnum(written: Written, node: CreateEnumStmt): Declaration {
  return declare(written, namesIn(node.typeName), { enum: namesIn(node.vals) });
}

export function declareComposite(written: Written, node: CompositeTypeStmt): Declaration {
  const { schemaname, relname = '' } = node.typevar ?? {};
  const attributes = Words.of(written.statement).inBrackets.split();
  const composite: Record<string, KeyValue> = {};
  (node.coldeflist ?? []).forEach((attribute, n) => {
    if (!('ColumnDef' in attribute)) return;
    const words = attributes[n] ?? new Words([]);
    if (attribute.ColumnDef.collClause)
      refuse(written, 'attributes with COLLATE are not supported', 'Remove COLLATE.', words.extent);
    composite[attribute.ColumnDef.colname ?? ''] = new LocatedValue(
      words.slice(1).in(written.text),
      words.extent,
    );
  });
  return declare(written, schemaname === undefined ? [relname] : [schemaname, relname], { composite });
}

export function declareDomain(written: Written, node: CreateDomainStmt): Declaration {
  const { statement, text } = written;
  const words = Words.of(statement);
  const rest = (node.constraints ?? []).flatMap((constraint) =>
    'Constraint' in constraint ? [constraint.Constraint] : [],
  );
  const starts = [...rest, ...(node.collClause ? [node.collClause] : [])]
    .map(({ location }) => statement.at(location))
    .sort((a, b) => a - b);
  /** Returns the tokens from `start` to the next constraint. */
  const from = (start: number): Words => {
    const end = starts.find((next) => next > start) ?? Number.POSITIVE_INFINITY;
    return new Words(words.tokens.filter((token) => token.start >= start && token.start < end));
  };
  const checks: KeyValue[] = [];
  let notNull: true | undefined;
  let defaults: KeyValue;
  for (const { contype, location } of rest) {
    const part = from(statement.at(location));
    if (contype === 'CONSTR_CHECK')
      checks.push(new LocatedValue(part.after('check').inBrackets.in(text), part.extent));
    else if (contype === 'CONSTR_NOTNULL') notNull = true;
    else if (contype === 'CONSTR_DEFAULT') defaults = { sql: part.after('default').in(text) };
    else if (contype !== 'CONSTR_NULL')
      refuse(
        written,
        'a domain can only have checks, NOT NULL and a default',
        'Remove other constraints.',
        part.extent,
      );
  }
  const collation = namesIn(node.collClause?.collname);
  return declare(written, namesIn(node.domainname), {
    domain: from(statement.at(node.typeName?.location)).in(text),
    check: checks.length === 0 ? undefined : checks,
    not_null: notNull,
    default: defaults,
    collate: collation.length === 0 ? undefined : collation.join('.'),
  });
}

function declare(written: Written, names: readonly string[], keys: KeyMap): Declaration {
  const schema = names.length > 1 ? (names[0] ?? '') : 'public';
  return {
    kind: 'types',
    schema,
    name: names.at(-1) ?? '',
    extent: statementHead(written),
    keys: { ...(schema === 'public' ? {} : { schema }), ...keys, renamed_from: renamedFrom(written) },
  };
}
