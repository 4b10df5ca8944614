// Statements that make what has no key of its own → entries of `statements`. Each has a name for people, by which comments,
// grants and what completes it find it; what it makes is for the server to read.
import type {
  AlterStatsStmt,
  AlterTSConfigurationStmt,
  CommentStmt,
  CreateCastStmt,
  CreateRangeStmt,
  CreateStatsStmt,
  DefElem,
  DefineStmt,
  Node,
  ObjectWithArgs,
  RangeVar,
  RuleStmt,
  TypeName,
} from '@pgsql/types';
import { type Declaration, statementHead, refuse, renamedFrom, type Written } from './declaration.ts';
import { namesIn, Said } from './key-nodes.ts';

/** Its statement is an entry of `statements`; undefined: none of these. */
export function declareStatement(written: Written, node: Node): Declaration | undefined {
  if ('DefineStmt' in node) return declareDefined(written, node.DefineStmt);
  if ('CreateStatsStmt' in node) return declareStatistics(written, node.CreateStatsStmt);
  if ('CreateRangeStmt' in node) return declareRange(written, node.CreateRangeStmt);
  if ('RuleStmt' in node) return declareRule(written, node.RuleStmt);
  if ('CreateCastStmt' in node) return declareCast(written, node.CreateCastStmt);
  return undefined;
}

function declareDefined(written: Written, node: DefineStmt): Declaration | undefined {
  const { kind, defnames = [], args = [], definition = [], oldstyle } = node;
  const name = nameIn(defnames);
  switch (kind) {
    case 'OBJECT_AGGREGATE': {
      if (oldstyle === true)
        refuse(
          written,
          'this form of CREATE AGGREGATE names its argument behind it',
          'Write create aggregate name(type) (sfunc = …, stype = …).',
        );
      const [list] = args;
      const types = list && 'List' in list ? (list.List.items ?? []) : [];
      return declare(
        written,
        aggregate(
          name,
          types.map((one) => ('FunctionParameter' in one ? one.FunctionParameter.argType : undefined)),
        ),
      );
    }
    case 'OBJECT_OPERATOR': {
      const side = (wanted: string): TypeName | undefined => {
        const { arg } = definition.map(readElement).find((one) => one?.defname === wanted) ?? {};
        return arg && 'TypeName' in arg ? arg.TypeName : undefined;
      };
      return declare(written, operator(name, [side('leftarg'), side('rightarg')]));
    }
    case 'OBJECT_COLLATION':
      return declare(written, `collation ${name}`);
    case 'OBJECT_TSCONFIGURATION':
      return declare(written, `text search configuration ${name}`);
    case 'OBJECT_TSDICTIONARY':
      return declare(written, `text search dictionary ${name}`);
    default:
      return undefined;
  }
}

function readElement(node: Node): DefElem | undefined {
  return 'DefElem' in node ? node.DefElem : undefined;
}

function declareStatistics(written: Written, { defnames, relations = [] }: CreateStatsStmt): Declaration {
  const name = nameIn(defnames);
  if (name === '')
    refuse(
      written,
      'these statistics have no name',
      'Name them: PostgreSQL would choose one, and svc would not know it.',
    );
  const [table] = relations;
  return {
    ...declare(written, `statistics ${name}`),
    host: table && 'RangeVar' in table ? toHost(table.RangeVar) : undefined,
  };
}

function declareRange(written: Written, { typeName, params = [] }: CreateRangeStmt): Declaration {
  if (params.some((one) => readElement(one)?.defname === 'canonical'))
    refuse(
      written,
      'svc does not make range types with CANONICAL, whose function must be there before its type',
      'Leave CANONICAL out.',
    );
  return declare(written, `type ${nameIn(typeName)}`);
}

function declareRule(written: Written, { relation, rulename = '', event }: RuleStmt): Declaration {
  if (event === 'CMD_SELECT')
    refuse(written, 'a rule ON SELECT is a view', 'Write create view, or declare it under views.');
  const host = toHost(relation);
  return { ...declare(written, `rule ${rulename} on ${nameOfHost(host)}`), host };
}

function declareCast(written: Written, { sourcetype, targettype }: CreateCastStmt): Declaration {
  return declare(written, cast(sourcetype, targettype));
}

function declare(written: Written, name: string): Declaration {
  if (renamedFrom(written) !== undefined)
    refuse(
      written,
      `svc does not rename a ${name.split(' ')[0]}`,
      'Leave the comment out: it is made under the new name, and the one with the old name is dropped.',
    );
  const { statement, text } = written;
  const { start, end } = statement;
  return {
    kind: 'statements',
    schema: 'public',
    name,
    extent: statementHead(written),
    keys: { create: new Said(text.slice(start, end), { start, end }) },
  };
}

type Host = NonNullable<Declaration['host']>;

function toHost({ schemaname = 'public', relname = '' }: RangeVar = {}): Host {
  return { schema: schemaname, name: relname };
}

function nameOfHost({ schema, name }: Host): string {
  return schema === 'public' ? name : `${schema}.${name}`;
}

/** What completes a statement that may stand elsewhere: the name of that one. */
export function completedBy(node: Node): string | undefined {
  if ('AlterTSConfigurationStmt' in node) return nameOfConfiguration(node.AlterTSConfigurationStmt);
  if ('AlterStatsStmt' in node) return nameOfStatistics(node.AlterStatsStmt);
  return undefined;
}

function nameOfConfiguration({ cfgname }: AlterTSConfigurationStmt): string {
  return `text search configuration ${nameIn(cfgname)}`;
}

function nameOfStatistics({ defnames }: AlterStatsStmt): string {
  return `statistics ${nameIn(defnames)}`;
}

/** The name of what a comment is about, where that is one of these or may be. */
export function commentedStatement({ objtype, object }: CommentStmt): string | undefined {
  const items = object && 'List' in object ? (object.List.items ?? []) : [];
  const plain = nameIn(items);
  switch (objtype) {
    case 'OBJECT_AGGREGATE':
      return object && 'ObjectWithArgs' in object ? aggregateNamed(object.ObjectWithArgs) : undefined;
    case 'OBJECT_OPERATOR': {
      if (!object || !('ObjectWithArgs' in object)) return undefined;
      const { objname, objargs = [] } = object.ObjectWithArgs;
      return operator(nameIn(objname), objargs.map(readType));
    }
    case 'OBJECT_CAST':
      return cast(...items.map(readType));
    case 'OBJECT_RULE': {
      const names = namesIn(items);
      const host = names.slice(0, -1);
      return `rule ${names.at(-1)} on ${withoutPublic(host)}`;
    }
    case 'OBJECT_TYPE':
      return object && 'TypeName' in object ? `type ${nameIn(object.TypeName.names)}` : undefined;
    case 'OBJECT_STATISTIC_EXT':
      return `statistics ${plain}`;
    case 'OBJECT_COLLATION':
      return `collation ${plain}`;
    case 'OBJECT_TSCONFIGURATION':
      return `text search configuration ${plain}`;
    case 'OBJECT_TSDICTIONARY':
      return `text search dictionary ${plain}`;
    default:
      return undefined;
  }
}

/** As GRANT and COMMENT name an aggregate. */
export function aggregateNamed({ objname, objargs = [] }: ObjectWithArgs): string {
  return aggregate(nameIn(objname), objargs.map(readType));
}

function readType(node: Node): TypeName | undefined {
  return 'TypeName' in node ? node.TypeName : undefined;
}

function aggregate(name: string, types: ReadonlyArray<TypeName | undefined>): string {
  return `aggregate ${name}(${types.map(textOfType).join(', ')})`;
}

function operator(name: string, sides: ReadonlyArray<TypeName | undefined>): string {
  return `operator ${name} (${sides.map(textOfType).join(', ')})`;
}

function cast(source?: TypeName, target?: TypeName): string {
  return `cast (${textOfType(source)} as ${textOfType(target)})`;
}

function nameIn(nodes: readonly Node[] | undefined): string {
  return withoutPublic(namesIn(nodes));
}

/** What is in no other schema is in this one. */
function withoutPublic(names: readonly string[]): string {
  return (names.length > 1 && names[0] === 'public' ? names.slice(1) : names).join('.');
}

/** One spelling for the names that the parser knows: `double precision` is `float8`. */
function textOfType(type: TypeName | undefined): string {
  if (type === undefined) return 'none';
  const names = namesIn(type.names);
  const own = names[0] === 'pg_catalog' ? names.slice(1) : names;
  return `${withoutPublic(own)}${(type.arrayBounds ?? []).map(() => '[]').join('')}`;
}
