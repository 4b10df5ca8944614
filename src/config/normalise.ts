// SvcFile (as written, checked) → Config (as read by everything else): defaults, units, positions.
import { parseBytes } from '../lib/bytes.ts';
import { parseDuration } from '../lib/duration.ts';
import { must } from '../lib/assert.ts';
import type {
  ExposedObjects,
  AuthConfig,
  Bucket,
  CodeFunction,
  Config,
  Default,
  Field,
  MigrationSettings,
  Policy,
  Providers,
  ServerSettings,
  SqlFunction,
  Table,
} from './config.ts';
import { decimalDigits } from './schema/scalar.ts';
import { locate, placeAt, positionOf, toJson, type Tree } from './read/tree.ts';
import type { KeyPath, Position } from './mistakes/mistake.ts';
import type { Source } from './read/source.ts';
import { toForeignKey, toQualified } from './schema/reference.ts';
import type {
  RawBucket,
  RawCodeFunction,
  RawField,
  RawPolicy,
  RawSqlFunction,
  RawTable,
  SvcFile,
} from './schema/schema.ts';

export type NormaliseOptions = {
  readonly source: Source;
  /** Contents of `body_file`s, by the path as written. */
  readonly bodyFiles: ReadonlyMap<string, string>;
};

export function normalise(tree: Tree, file: SvcFile, options: NormaliseOptions): Config {
  const at = (path: KeyPath): Position => positionOf(tree, locate(tree, path, 'key'));
  const pool = file.database?.pool;
  return {
    project: {
      name: file.project?.name,
      description: file.project?.description,
      cloudProjectId: file.project?.cloud?.project_id,
    },
    database: {
      pool: {
        max: pool?.max ?? 20,
        min: Math.min(pool?.min ?? 5, pool?.max ?? 20),
        idleTimeoutMs: ms(pool?.idle_timeout, '300s'),
      },
    },
    server: toServer(file),
    providers: toProviders(file),
    auth: toAuth(file, options, at),
    tables: Object.entries(file.tables ?? {}).map(([name, table]) => toTable(tree, name, table, at)),
    storage: Object.entries(file.storage ?? {}).map(([name, bucket]) => toBucket(name, bucket ?? {}, at)),
    rpc: Object.entries(file.rpc ?? {}).map(([name, fn]) => toSqlFunction(tree, name, fn, at)),
    functions: Object.entries(file.functions ?? {}).map(([name, fn]) => toCodeFunction(name, fn, at)),
    expose: toExposed(file),
    functionsBundle: file.functions_bundle,
    migrations: toMigrations(file),
    source: options.source,
  };
}

type At = (path: KeyPath) => Position;

function toServer({ server }: SvcFile): ServerSettings {
  return {
    port: server?.port ?? 8080,
    maxBodyBytes: bytes(server?.max_body_size, '1MB'),
    maxResponseBytes: bytes(server?.max_response_size, '100MB'),
    maxLimit: server?.max_limit ?? 100,
    cors: { origins: server?.cors?.origins ?? [] },
    timeouts: {
      requestMs: ms(server?.timeouts?.request, '30s'),
      dbQueryMs: ms(server?.timeouts?.db_query, '10s'),
      uploadMs: ms(server?.timeouts?.upload, '5m'),
      shutdownMs: ms(server?.timeouts?.shutdown, '30s'),
    },
  };
}

function toProviders({ providers }: SvcFile): Providers {
  const email = providers?.email;
  const storage = providers?.storage;
  return {
    email: email
      ? {
          type: email.type,
          apiKey: email.api_key,
          defaultFromEmail: email.default_from_email,
          url: email.url,
          region: email.region,
        }
      : undefined,
    storage:
      storage?.type === 's3' && storage.s3
        ? {
            type: 's3',
            bucket: storage.s3.bucket,
            region: storage.s3.region,
            accessKeyId: storage.s3.access_key_id,
            secretAccessKey: storage.s3.secret_access_key,
            endpoint: storage.s3.endpoint,
          }
        : { type: 'local', path: storage?.local?.path },
  };
}

function toAuth({ auth }: SvcFile, { bodyFiles }: NormaliseOptions, at: At): AuthConfig {
  return {
    jwtExpirySeconds: Math.round(ms(auth?.jwt_expiry, '15m') / 1000),
    refreshTokenExpirySeconds: Math.round(ms(auth?.refresh_token_expiry, '7d') / 1000),
    allowSignup: auth?.allow_signup ?? true,
    allowAnonymous: auth?.allow_anonymous ?? true,
    redirectUrls: auth?.redirect_urls ?? [],
    email: auth?.email
      ? {
          verifyEmail: auth.email.verify_email ?? false,
          templates: Object.entries(auth.email.templates ?? {}).map(([name, template]) => ({
            name,
            subject: template.subject,
            body:
              template.body ??
              (template.body_file === undefined ? undefined : bodyFiles.get(template.body_file)),
            position: at(['auth', 'email', 'templates', name]),
          })),
        }
      : undefined,
    oauth: Object.entries(auth?.oauth ?? {}).map(([name, provider]) => ({
      name,
      clientId: provider.client_id,
      clientSecret: provider.client_secret,
      redirectUrl: provider.redirect_url,
      issuer: provider.issuer,
      url: provider.url,
      scopes: provider.scopes,
      emailOptional: provider.email_optional,
      position: at(['auth', 'oauth', name]),
    })),
  };
}

function toTable(tree: Tree, name: string, table: RawTable, at: At): Table {
  const path = ['tables', name];
  return {
    schema: table.schema ?? 'public',
    name,
    renamedFrom: table.renamed_from,
    protect: table.protect ?? false,
    fields: table.fields.map((field, index) => toField(tree, field, [...path, 'fields', index], at)),
    primaryKey: table.fields.filter((field) => field.primary_key).map((field) => field.name),
    indexes: (table.indexes ?? []).map((index, number) => ({
      name: index.name,
      columns: index.columns,
      unique: index.unique ?? false,
      where: index.where,
      position: at([...path, 'indexes', number]),
    })),
    rls:
      table.rls === undefined
        ? 'absent'
        : table.rls === false
          ? 'off'
          : toPolicies(table.rls, [...path, 'rls'], at),
    position: at(path),
  };
}

function toField(tree: Tree, field: RawField, path: KeyPath, at: At): Field {
  return {
    name: field.name,
    type: field.type,
    primaryKey: field.primary_key ?? false,
    required: field.required ?? false,
    unique: field.unique ?? false,
    default: toDefault(tree, field.default, [...path, 'default']),
    enum: field.enum,
    pattern: field.pattern,
    min: field.min === undefined ? undefined : (decimalDigits(field.min) ?? field.min),
    max: field.max === undefined ? undefined : (decimalDigits(field.max) ?? field.max),
    check: field.check,
    foreignKey: field.foreign_key ? toForeignKey(field.foreign_key) : undefined,
    ref:
      field.ref === undefined
        ? undefined
        : { bucket: field.ref.replace(/^storage\./, ''), onDelete: field.on_delete ?? 'keep' },
    renamedFrom: field.renamed_from,
    backfill: field.backfill,
    using: field.using,
    position: at(path),
  };
}

/** Null and absent are the same: no default. */
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
    name: policy.name,
    operations: [...new Set(policy.operations)],
    type: policy.type ?? 'permissive',
    using: policy.using,
    withCheck: policy.with_check,
    check: policy.check,
    position: at([...path, index]),
  }));
}

function toBucket(name: string, bucket: RawBucket, at: At): Bucket {
  const path = ['storage', name];
  return {
    name,
    public: bucket.public ?? false,
    maxSizeBytes: bytes(bucket.max_size, '50MB'),
    types: bucket.types ?? [],
    rls: toPolicies(bucket.rls ?? [], [...path, 'rls'], at),
    position: at(path),
  };
}

function toSqlFunction(tree: Tree, name: string, fn: RawSqlFunction, at: At): SqlFunction {
  const path = ['rpc', name];
  return {
    name,
    renamedFrom: fn.renamed_from,
    description: fn.description,
    authRequired: fn.auth_required ?? false,
    language: fn.language ?? 'plpgsql',
    volatility: fn.volatility ?? 'volatile',
    security: fn.security ?? 'invoker',
    args: (fn.args ?? []).map((arg, index) => ({
      name: arg.name,
      type: arg.type,
      required: arg.required ?? false,
      default: toDefault(tree, arg.default, [...path, 'args', index, 'default']),
      position: at([...path, 'args', index]),
    })),
    returns: fn.returns.type,
    body: fn.body,
    position: at(path),
  };
}

function toCodeFunction(name: string, fn: RawCodeFunction, at: At): CodeFunction {
  return {
    name,
    runtime: fn.runtime,
    file: fn.file,
    authRequired: fn.auth_required ?? false,
    timeoutMs: ms(fn.timeout, '30s'),
    env: Object.fromEntries(Object.entries(fn.env ?? {}).map(([key, value]) => [key, String(value)])),
    position: at(['functions', name]),
  };
}

function toExposed({ expose }: SvcFile): ExposedObjects {
  return {
    relations: (expose?.relations ?? []).map((one) =>
      typeof one === 'string' ? toQualified(one) : { ...toQualified(one.name), columns: one.columns },
    ),
    routines: (expose?.functions ?? []).map((one) =>
      typeof one === 'string'
        ? { ...toQualified(one), authRequired: false }
        : { ...toQualified(one.name), authRequired: one.auth_required ?? false },
    ),
  };
}

function toMigrations({ migrations }: SvcFile): MigrationSettings {
  return {
    drop: migrations?.drop ?? 'retire',
    pruneAfterMs: ms(migrations?.prune_after, '7d'),
    lockTimeoutMs: ms(migrations?.lock_timeout, '300ms'),
    lockBudgetMs: ms(migrations?.lock_budget, '60s'),
    bootBudgetMs: ms(migrations?.boot_budget, '60s'),
    maxWriteBlockMs: ms(migrations?.max_write_block, '100ms'),
  };
}

function ms(text: string | undefined, fallback: string): number {
  return must(parseDuration(text ?? fallback), 'a checked duration');
}

function bytes(text: string | undefined, fallback: string): number {
  return must(parseBytes(text ?? fallback), 'a checked size');
}
