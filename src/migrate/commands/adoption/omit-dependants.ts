// Omits objects from a pull that use an omitted object, and lists both.
import { scanSql, WORDS_BEFORE_TABLES } from '../../../lib/sql/sql-text.ts';
import type { Live, LiveFunction, LivePolicy, LiveTable } from '../../schema/live/live-schema.ts';
import { objectKey } from '../../schema/model.ts';
import { REALTIME_MESSAGES, STORAGE_OBJECTS } from '../../schema/rights/hosts.ts';
import { PUBLIC } from '../../schema/rights/roles.ts';
import { searchPathSchemas } from '../../schema/sql/function-sql.ts';
import type { LiveStatement } from '../../schema/statements.ts';
import type { Use } from './read-uses.ts';

export type Omission = {
  /** `relation public.orders`, `function 16400`, as in `Use`. */
  readonly key: string;
  /** Display name, such as `function public.area(integer)`. */
  readonly label: string;
};

export type Remaining = {
  readonly live: Live;
  /** Lines for removed objects, such as `policy own of public.orders: it uses function public.owns(integer)`. */
  readonly omitted: readonly string[];
};

/** Removes the direct and indirect dependants of `omitted` from `live`. */
export function omitDependants(live: Live, omitted: readonly Omission[], uses: readonly Use[]): Remaining {
  const gone = new Map<string, string>();
  const labels = new Map(omitted.map(({ key, label }) => [key, label]));
  const queue = [...labels.keys()];
  const functions = [...live.functions.values()].flat();
  for (let key = queue.shift(); key !== undefined; key = queue.shift()) {
    const why = labels.get(key) ?? key;
    const dependants = [
      ...uses.filter((use) => use.uses === key).map(({ object }) => object),
      ...functions.filter((fn) => namesInBody(fn, key, live)).map(({ oid }) => `function ${oid}`),
    ];
    for (const object of dependants) {
      if (labels.has(object)) continue;
      const label = displayName(object, functions, live);
      labels.set(object, label);
      gone.set(object, `${label}: it uses ${why}`);
      queue.push(object);
    }
    for (const object of heldBackBy(key, live)) {
      if (labels.has(object)) continue;
      const label = displayName(object, functions, live);
      labels.set(object, label);
      gone.set(object, `${label}: it would allow more without ${why}`);
    }
  }
  const remains = (key: string): boolean => !gone.has(key);
  return gone.size === 0
    ? { live, omitted: [] }
    : {
        live: without(live, remains),
        omitted: [...gone].flatMap(([key, line]) => (isPartOfGone(key, labels) ? [] : [line])),
      };
}

/** Policies that would allow more without this restrictive one. */
function heldBackBy(key: string, live: Live): string[] {
  const [, host = '', name = ''] = /^policy (\S+) (.+)$/.exec(key) ?? [];
  const policies = live.tables.get(host)?.policies ?? hostedPolicies(live, host);
  const omitted = policies.find(({ label }) => label === name);
  if (omitted === undefined || omitted.permissive) return [];
  return policies
    .filter((policy) => policy.permissive && areForOneCaller(policy, omitted))
    .map(({ label }) => `policy ${host} ${label}`);
}

function areForOneCaller(policy: LivePolicy, restrictive: LivePolicy): boolean {
  const roles = policy.roles.split(',');
  const commands = [policy.command, restrictive.command];
  if (policy.command !== restrictive.command && !commands.includes('all')) return false;
  return (
    roles.includes(PUBLIC) ||
    restrictive.roles.split(',').some((role) => role === PUBLIC || roles.includes(role))
  );
}

function hostedPolicies(live: Live, host: string): readonly LivePolicy[] {
  return host === STORAGE_OBJECTS || host === REALTIME_MESSAGES ? live.hosted[host] : [];
}

/** Returns true for parts of an object that is already listed, and for operator classes, which no file can declare. */
function isPartOfGone(key: string, labels: ReadonlyMap<string, string>): boolean {
  const [, kind = '', rest = ''] = /^(\S+) (.+)$/.exec(key) ?? [];
  if (kind === 'operator') return true;
  if (kind === 'index' && labels.has(`constraint ${rest}`)) return true;
  if (!PARTS.has(kind)) return false;
  return [...labels.keys()].some(
    (candidate) =>
      candidate.startsWith('relation ') && rest.startsWith(`${candidate.slice('relation '.length)} `),
  );
}

const PARTS: ReadonlySet<string> = new Set(['column', 'constraint', 'index', 'policy', 'trigger']);

/** Returns true if the body of the function contains the name of the object. PostgreSQL does not record this. */
function namesInBody(fn: LiveFunction, key: string, live: Live): boolean {
  if (fn.atomic) return false;
  const named = namedObject(key, [...live.functions.values()].flat());
  if (named === null || !fn.body.includes(named.name)) return false;
  const isFoundFirst = named.isFunction || isFirstInPath(fn, named, live);
  const tokens = scanSql(fn.body).tokens.filter(({ kind }) => kind !== 'comment' && kind !== 'space');
  return tokens.some(({ kind, text }, index) => {
    const word = kind === 'quoted' ? text.slice(1, -1).replaceAll('""', '"') : text.toLowerCase();
    if ((kind !== 'word' && kind !== 'quoted') || word !== named.name) return false;
    const before = tokens[index - 1]?.text ?? '';
    const next = tokens[index + 1]?.text;
    if (named.isFunction && next !== '(') return false;
    if (before === '.') return tokens[index - 2]?.text.replaceAll('"', '').toLowerCase() === named.schema;
    return (
      isFoundFirst && (named.isFunction || next === '%' || WORDS_BEFORE_TABLES.has(before.toLowerCase()))
    );
  });
}

/** Returns true if a name without a schema refers to this relation, and not to one in another schema. */
function isFirstInPath({ settings }: LiveFunction, { schema, name }: Named, live: Live): boolean {
  const own = settings.find((setting) => setting.startsWith('search_path='))?.slice('search_path='.length);
  const path = own === undefined ? ['public'] : searchPathSchemas(own);
  const keys = path.map((schema) => `${schema}.${name}`);
  const first = keys.find((key) => live.tables.has(key) || live.views.has(key));
  return first === undefined || first === `${schema}.${name}`;
}

type Named = { readonly schema: string; readonly name: string; readonly isFunction: boolean };

function namedObject(key: string, functions: readonly LiveFunction[]): Named | null {
  const fn = functions.find(({ oid }) => key === `function ${oid}`);
  if (fn) return { schema: fn.schema, name: fn.name, isFunction: true };
  const [, schema, name] = /^relation ([^.]+)\.(.+)$/.exec(key) ?? [];
  return schema === undefined || name === undefined ? null : { schema, name, isFunction: false };
}

/** Returns the key of the object. The catalog stores aggregates as functions and ranges as types. */
export function statementKey({ address, schema, name }: LiveStatement): string {
  if (address.startsWith('pg_proc/')) return `function ${address.slice('pg_proc/'.length)}`;
  return address.startsWith('pg_type/') ? `type ${schema}.${name}` : `statement ${address}`;
}

function displayName(key: string, functions: readonly LiveFunction[], live: Live): string {
  const fn = functions.find(({ oid }) => key === `function ${oid}`);
  if (fn) return functionLabel(fn);
  const statement = [...live.statements.values()].find((statement) => key === statementKey(statement));
  if (statement) return statement.identity;
  const [, kind = '', host = '', name] = /^(\S+) (\S+)(?: (.+))?$/.exec(key) ?? [];
  if (kind === 'relation') return `${live.views.has(host) ? 'view' : 'table'} ${host}`;
  return name === undefined ? key : `${kind} ${name} of ${host}`;
}

export function functionLabel({ schema, name, identityArguments }: LiveFunction): string {
  return `function ${schema}.${name}(${identityArguments})`;
}

function without(live: Live, remains: (key: string) => boolean): Live {
  const keep = <T>(map: ReadonlyMap<string, T>, keyFor: (object: T) => string): Map<string, T> =>
    new Map([...map].filter(([, item]) => remains(keyFor(item))));
  const relation = (object: { schema: string; name: string }): string => `relation ${objectKey(object)}`;
  const policies = (host: string): (typeof live.hosted)['storage.objects'] =>
    host === 'storage.objects' ? live.hosted['storage.objects'] : live.hosted['realtime.messages'];
  const hosted = (host: string): (typeof live.hosted)['storage.objects'] =>
    policies(host).filter(({ label }) => remains(`policy ${host} ${label}`));
  return {
    ...live,
    types: keep(live.types, (type) => `type ${objectKey(type)}`),
    tables: new Map(
      [...keep(live.tables, relation)].map(([key, table]) => [key, tableWithout(table, key, remains)]),
    ),
    views: new Map(
      [...keep(live.views, relation)].map(([key, view]) => [
        key,
        {
          ...view,
          triggers: view.triggers.filter(({ label }) => remains(`trigger ${key} ${label}`)),
          indexes: view.indexes.filter(({ label }) => remains(`index ${key} ${label}`)),
        },
      ]),
    ),
    functions: new Map(
      [...live.functions].map(([key, overloads]) => [
        key,
        overloads.filter(({ oid }) => remains(`function ${oid}`)),
      ]),
    ),
    sequences: keep(live.sequences, (sequence) => `sequence ${objectKey(sequence)}`),
    statements: keep(live.statements, statementKey),
    userTriggers: live.userTriggers.filter(({ label }) => remains(`trigger auth.users ${label}`)),
    hosted: {
      'storage.objects': hosted('storage.objects'),
      'realtime.messages': hosted('realtime.messages'),
    },
  };
}

function tableWithout(table: LiveTable, key: string, remains: (key: string) => boolean): LiveTable {
  const hasColumns = ({ columns }: { columns: readonly string[] }): boolean =>
    columns.every((column) => remains(`column ${key} ${column}`));
  const isConstraint = (constraint: { label: string; columns: readonly string[] }): boolean =>
    remains(`constraint ${key} ${constraint.label}`) && hasColumns(constraint);
  return {
    ...table,
    columns: new Map([...table.columns].filter(([name]) => remains(`column ${key} ${name}`))),
    keys: table.keys.filter(isConstraint),
    foreignKeys: table.foreignKeys.filter(isConstraint),
    checks: table.checks.filter(isConstraint),
    exclusions: table.exclusions.filter(isConstraint),
    indexes: table.indexes.filter(
      (candidate) => remains(`index ${key} ${candidate.label}`) && hasColumns(candidate),
    ),
    policies: table.policies.filter(({ label }) => remains(`policy ${key} ${label}`)),
    triggers: table.triggers.filter(({ label }) => remains(`trigger ${key} ${label}`)),
  };
}
