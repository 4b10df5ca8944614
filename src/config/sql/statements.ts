// Converts CREATE statements of objects without their own key into entries of `statements`. Each entry has a readable
// name, by which comments, grants and ALTER statements refer to it. Only the server interprets the statement.
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
import { namesIn, LocatedValue } from './key-nodes.ts';

/** Returns an entry of `statements`, or undefined for any other statement. */
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
          'this form of CREATE AGGREGATE has its argument type after the name',
          'Write create aggregate name(type) (sfunc = …, stype = …).',
        );
      const [list] = args;
      const types = list && 'List' in list ? (list.List.items ?? []) : [];
      return declare(
        written,
        aggregate(
          name,
          types.map((argument) =>
            'FunctionParameter' in argument ? argument.FunctionParameter.argType : undefined,
          ),
        ),
      );
    }
    case 'OBJECT_OPERATOR': {
      const side = (key: string): TypeName | undefined => {
        const { arg } = definition.map(readElement).find((element) => element?.defname === key) ?? {};
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
      'Add a name: PostgreSQL would choose one that svc does not know.',
    );
  const [table] = relations;
  return {
    ...declare(written, `statistics ${name}`),
    host: table && 'RangeVar' in table ? toHost(table.RangeVar) : undefined,
  };
}

function declareRange(written: Written, { typeName, params = [] }: CreateRangeStmt): Declaration {
  if (params.some((param) => readElement(param)?.defname === 'canonical'))
    refuse(
      written,
      'svc does not create range types with CANONICAL, whose function must exist before the type',
      'Remove CANONICAL.',
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
      'Remove the comment: svc creates the object with the new name and drops the old one.',
    );
  const { statement, text } = written;
  const { start, end } = statement;
  return {
    kind: 'statements',
    schema: 'public',
    name,
    extent: statementHead(written),
    keys: { create: new LocatedValue(text.slice(start, end), { start, end }) },
  };
}

type Host = NonNullable<Declaration['host']>;

function toHost({ schemaname = 'public', relname = '' }: RangeVar = {}): Host {
  return { schema: schemaname, name: relname };
}

function nameOfHost({ schema, name }: Host): string {
  return schema === 'public' ? name : `${schema}.${name}`;
}

/** Returns the name of the object that an ALTER statement completes. */
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

/** Returns the name of the commented object, if it can be an entry of `statements`. */
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

/** Returns the name of an aggregate in GRANT and COMMENT. */
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

/** An unqualified name is in the schema `public`. */
function withoutPublic(names: readonly string[]): string {
  return (names.length > 1 && names[0] === 'public' ? names.slice(1) : names).join('.');
}

/** Normalises type names of the parser, such as `float8` for `double precision`. */
function textOfType(type: TypeName | undefined): string {
  if (type === undefined) return 'none';
  const names = namesIn(type.names);
  const own = names[0] === 'pg_catalog' ? names.slice(1) : names;
  return `${withoutPublic(own)}${(type.arrayBounds ?? []).map(() => '[]').join('')}`;
}
