// The checked file → Config. Adds names and positions to declarations, and reads literals of defaults from the tree,
// which keeps their digits.
import { must } from '../lib/assert.ts';
import { seedUser } from './check/seed.ts';
import type {
  AuthConfig,
  AuthHook,
  AuthHooks,
  Config,
  Default,
  Field,
  Policy,
  SeedEntry,
  SeedTable,
  SeedValue,
  SqlFunction,
  Table,
  View,
} from './config.ts';
import { decimalDigits } from './schema/scalar.ts';
import { locate, placeAt, toPosition, toJson, type Tree } from './read/tree.ts';
import type { KeyPath, Position } from './mistakes/mistake.ts';
import type { Source } from './read/source.ts';
import { toForeignKey, toQualified } from './schema/tables/reference.ts';
import { listFunctions, isServed, type RawSqlFunction } from './schema/functions.ts';
import { isHookFunction, type RawHook } from './schema/auth.ts';
import type { SvcFile } from './schema/schema.ts';
import type { RawSeedEntry } from './schema/seed.ts';
import type { RawPolicy } from './schema/tables/policies.ts';
import type { RawField, RawTable } from './schema/tables/tables.ts';
import type { RawView } from './schema/tables/views.ts';

export type NormaliseOptions = {
  readonly source: Source;
  /** Contents of referenced files, by path as written. */
  readonly bodyFiles: ReadonlyMap<string, string>;
};

export function normalise(tree: Tree, file: SvcFile, { source, bodyFiles }: NormaliseOptions): Config {
  const { project, database, server, providers, expose, migrations } = file;
  const { pool } = database;
  const store = providers.storage;
  const declared = new Set(
    listFunctions(file.rpc).flatMap(({ key, name, fn }) => [`${fn.schema}.${name}`, `${fn.schema}.${key}`]),
  );
  const at = (path: KeyPath): Position => toPosition(tree, locate(tree, path, 'key'));
  return {
    project,
    database: { ...database, pool: { ...pool, min: Math.min(pool.min, pool.max) } },
    server,
    providers: {
      email: providers.email ?? undefined,
      storage:
        store?.type === 's3' && store.s3
          ? { type: 's3', ...store.s3 }
          : { type: 'local', path: store?.local?.path ?? '.svc/storage' },
    },
    auth: toAuth(file, bodyFiles, at),
    types: Object.entries(file.types).map(([name, type]) => ({
      ...type,
      name,
      default: toDefault(tree, type.default, ['types', name, 'default']),
      position: at(['types', name]),
    })),
    sequences: Object.entries(file.sequences).map(([name, sequence]) => ({
      ...sequence,
      name,
      position: at(['sequences', name]),
    })),
    statements: Object.entries(file.statements).map(([name, statement]) => ({
      ...statement,
      name,
      position: at(['statements', name]),
    })),
    extensions: file.extensions.map((extension, n) => ({ ...extension, position: at(['extensions', n]) })),
    tables: Object.entries(file.tables).map(([name, table]) => toTable(tree, name, table, at)),
    views: Object.entries(file.views).map(([name, view]) => toView(name, view, bodyFiles, at)),
    storage: Object.entries(file.storage).map(([name, bucket]) => ({
      ...bucket,
      name,
      rls: toPolicies(bucket.rls, ['storage', name, 'rls'], at),
      position: at(['storage', name]),
    })),
    realtime: { ...file.realtime, rls: toPolicies(file.realtime.rls, ['realtime', 'rls'], at) },
    rpc: Object.entries(file.rpc).map(([key, fn]) => toSqlFunction(tree, key, fn, { bodyFiles, at })),
    functions: Object.entries(file.functions).map(([name, fn]) => ({
      ...fn,
      name,
      // Clients cannot call the function of a hook, so it can use the service client.
      ...(isHookFunction(file, name) && { http: false, authRequired: true }),
      position: at(['functions', name]),
    })),
    // Objects of SQL files are declared, so they need no `expose` entry.
    expose: {
      relations: expose.relations
        .map((entry) =>
          typeof entry === 'string'
            ? toQualified(entry)
            : { ...toQualified(entry.name), columns: entry.columns },
        )
        .filter(({ schema, name }) => file.views[name]?.schema !== schema),
      routines: expose.functions
        .map((entry) =>
          typeof entry === 'string'
            ? { ...toQualified(entry), authRequired: false }
            : { ...toQualified(entry.name), authRequired: entry.auth_required },
        )
        .filter(({ schema, name }) => !declared.has(`${schema}.${name}`)),
    },
    functionsBundle: file.functions_bundle,
    schedules: Object.entries(file.schedules).map(([name, { payload = {}, ...schedule }]) => ({
      ...schedule,
      name,
      payload: JSON.stringify(payload),
      position: at(['schedules', name]),
    })),
    seed: file.seed.map((entry, index) => toSeed(tree, entry, ['seed', index], { file, at })),
    migrations: {
      ...migrations,
      steps: migrations.steps.map(({ run, sql, undo, ...step }, n) => ({
        ...step,
        file: run,
        sql: sql ?? (run === undefined ? '' : must(bodyFiles.get(run), 'the file of a step')),
        undo:
          typeof undo === 'object'
            ? { file: undo.file, sql: must(bodyFiles.get(undo.file), 'the file that undoes a step') }
            : undo === undefined
              ? undefined
              : { file: undefined, sql: undo },
        position: at(['migrations', 'steps', n]),
      })),
    },
    source,
  };
}

type At = (path: KeyPath) => Position;

function toAuth({ auth, rpc }: SvcFile, bodyFiles: ReadonlyMap<string, string>, at: At): AuthConfig {
  return {
    jwtExpirySeconds: Math.round(auth.jwt_expiry / 1000),
    refreshTokenExpirySeconds: Math.round(auth.refresh_token_expiry / 1000),
    allowSignup: auth.allow_signup,
    allowAnonymous: auth.allow_anonymous,
    redirectUrls: auth.redirect_urls,
    sessions: auth.sessions,
    email: auth.email
      ? {
          verifyEmail: auth.email.verify_email,
          confirmAtSignup: auth.email.confirm_at_signup,
          confirmExpiryMs: auth.email.confirm_expiry,
          notices: auth.email.notices,
          templates: Object.entries(auth.email.templates).map(([name, { subject, body, body_file }]) => ({
            name,
            subject,
            body: body ?? (body_file === undefined ? undefined : bodyFiles.get(body_file)),
            position: at(['auth', 'email', 'templates', name]),
          })),
        }
      : undefined,
    oauth: Object.entries(auth.oauth).map(([name, provider]) => ({
      ...provider,
      name,
      position: at(['auth', 'oauth', name]),
    })),
    triggers: (auth.triggers ?? []).map((trigger, index) => ({
      ...trigger,
      position: at(['auth', 'triggers', index]),
    })),
    ...(auth.hooks && { hooks: toHooks(auth.hooks, rpc) }),
  };
}

function toHooks(
  { custom_access_token: token }: NonNullable<SvcFile['auth']['hooks']>,
  rpc: SvcFile['rpc'],
): AuthHooks {
  const hook = token && toHook(token, rpc);
  return hook ? { custom_access_token: hook } : {};
}

function toHook({ rpc: key, function: code, timeout }: RawHook, rpc: SvcFile['rpc']): AuthHook | undefined {
  if (code !== undefined) return { function: code, timeoutMs: timeout };
  const fn = key === undefined ? undefined : rpc[key];
  if (key === undefined || !fn) return undefined;
  return { rpc: { schema: fn.schema, name: fn.name ?? key }, timeoutMs: timeout };
}

function toTable(tree: Tree, name: string, table: RawTable, at: At): Table {
  const path = ['tables', name];
  const { fields, indexes, rls, triggers = [], partitions } = table;
  return {
    ...table,
    name,
    fields: fields.map((field, index) => toField(tree, field, [...path, 'fields', index], at)),
    primaryKey: fields.filter((field) => field.primaryKey).map((field) => field.name),
    onNewUser: table.onNewUser && { ...table.onNewUser, position: at([...path, 'on_new_user']) },
    constraints: table.constraints.map((constraint, number) => ({
      ...constraint,
      position: at([...path, 'constraints', number]),
    })),
    indexes: indexes.map((index, number) => ({ ...index, position: at([...path, 'indexes', number]) })),
    triggers: triggers.map((trigger, number) => ({
      ...trigger,
      position: at([...path, 'triggers', number]),
    })),
    partitions: Array.isArray(partitions)
      ? partitions.map((partition, number) => ({
          ...partition,
          position: at([...path, 'partitions', number]),
        }))
      : partitions,
    rls: rls === undefined ? 'absent' : rls === false ? 'off' : toPolicies(rls, [...path, 'rls'], at),
    position: at(path),
  };
}

function toView(name: string, view: RawView, files: ReadonlyMap<string, string>, at: At): View {
  const { query } = view;
  const text = typeof query === 'string' ? query : must(files.get(query.file), 'the file of a view');
  return {
    ...view,
    name,
    query: text.replace(/(?:\s*;)?\s*$/, ''),
    indexes: view.indexes.map((index, number) => ({
      ...index,
      position: at(['views', name, 'indexes', number]),
    })),
    triggers: view.triggers.map((trigger, number) => ({
      ...trigger,
      position: at(['views', name, 'triggers', number]),
    })),
    position: at(['views', name]),
  };
}

function toField(tree: Tree, { onDelete, ...field }: RawField, path: KeyPath, at: At): Field {
  const { min, max, foreignKey, ref } = field;
  return {
    ...field,
    type: field.type,
    default: toDefault(tree, field.default, [...path, 'default']),
    min: min === undefined ? undefined : (decimalDigits(min) ?? min),
    max: max === undefined ? undefined : (decimalDigits(max) ?? max),
    foreignKey: foreignKey && toForeignKey(foreignKey),
    ref: ref === undefined ? undefined : { bucket: ref.replace(/^storage\./, ''), onDelete },
    position: at(path),
  };
}

/** Null and absent both mean that there is no default. */
function toDefault(tree: Tree, value: unknown, path: KeyPath): Default | undefined {
  if (value === undefined || value === null) return undefined;
  const place = must(placeAt(tree, path), 'the place of a default');
  const { scalar } = place;
  if (scalar) {
    if (scalar.kind === 'null') return undefined;
    return { kind: 'scalar', text: scalar.text, type: scalar.kind, quoted: scalar.quoted };
  }
  if (place.isList) {
    const items = [...place.children.values()].map((item) => item.scalar?.text ?? toJson(item));
    return { kind: 'list', items, json: toJson(place) };
  }
  const sql = place.children.size === 1 ? place.children.get('sql')?.scalar : undefined;
  return sql ? { kind: 'sql', text: sql.text } : { kind: 'map', json: toJson(place) };
}

function toPolicies(policies: readonly RawPolicy[], path: KeyPath, at: At): Policy[] {
  return policies.map((policy, index) => ({
    ...policy,
    operations: [...new Set(policy.operations)],
    position: at([...path, index]),
  }));
}

function toSqlFunction(
  tree: Tree,
  key: string,
  { bodyFile, ...fn }: RawSqlFunction,
  { bodyFiles, at }: { readonly bodyFiles: ReadonlyMap<string, string>; readonly at: At },
): SqlFunction {
  const path = ['rpc', key];
  return {
    ...fn,
    key,
    name: fn.name ?? key,
    body: fn.body ?? (bodyFile === undefined ? '' : (bodyFiles.get(bodyFile) ?? '')),
    expose: isServed(fn),
    args: fn.args.map((arg, index) => ({
      ...arg,
      default: toDefault(tree, arg.default, [...path, 'args', index, 'default']),
      position: at([...path, 'args', index]),
    })),
    position: at(path),
  };
}

function toSeed(
  tree: Tree,
  { rows, objects, ...entry }: RawSeedEntry,
  path: KeyPath,
  { file, at }: { readonly file: SvcFile; readonly at: At },
): SeedEntry {
  const toRows = (name: string): SeedTable => {
    const given = rows[name];
    const table = must(file.tables[name], 'the table of a seed');
    return {
      schema: table.schema,
      table: name,
      primaryKey: table.fields.filter((field) => field.primaryKey).map((field) => field.name),
      file: Array.isArray(given) ? undefined : given?.file,
      rows: !Array.isArray(given)
        ? []
        : given.map((row, index) => {
            const place = [...path, 'rows', name, index];
            const values = Object.entries(row).map(([column, value]): [string, SeedValue] => {
              const user = seedUser(value);
              if (user !== undefined) return [column, { user }];
              return [
                column,
                { json: toJson(must(placeAt(tree, [...place, column]), 'the place of a value')) },
              ];
            });
            return { values: new Map(values), position: at(place) };
          }),
    };
  };
  return {
    ...entry,
    rows: Object.keys(rows).map(toRows),
    objects: Object.entries(objects).map(([bucket, folder]) => ({ bucket, folder })),
    position: at(path),
  };
}
