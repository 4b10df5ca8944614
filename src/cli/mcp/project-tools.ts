// Tools that describe the project: its file, its database and its functions.
import { readFileSync } from 'node:fs';
import { isAbsolute, join, relative } from 'node:path';
import type { Config } from '../../config/config.ts';
import { silentLog } from '../../log/log.ts';
import { planMigration } from '../../migrate/commands/plan.ts';
import { stepLine } from '../../migrate/commands/render.ts';
import { renderProblems } from '../../migrate/problem.ts';
import { toModel } from '../../migrate/schema/declared.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { type ReadProject, readProject } from '../project/project.ts';
import type { ReadServed } from '../project/served-project.ts';

/** Reads the project with `text` in place of svc.yaml. */
export async function readDraft({ source, mode }: ReadServed, text: string): Promise<ReadProject> {
  return await readProject({ source: { ...source, text }, mode, unsetVariables: 'warning' });
}

export function describeMistakes({ loaded, unset }: ReadProject): object {
  const mistakes = loaded.ok ? [...unset, ...loaded.warnings] : loaded.mistakes;
  return {
    valid: loaded.ok,
    mistakes: mistakes.map(({ severity, code, path, message, hint, position }) => ({
      severity,
      code,
      path: path.join('.'),
      file: position.file,
      line: position.line,
      message,
      hint,
    })),
  };
}

/** Returns the configuration. Throws a Problem that lists the mistakes. */
export function requireConfig(read: ReadProject): Config {
  if (read.loaded.ok) return read.loaded.config;
  throw new Problem('bad_config', 422, 'svc.yaml has mistakes', {
    details: JSON.stringify(describeMistakes(read)),
  });
}

/** Plans a migration to the file and applies nothing. `rows: 'none'` reads no row of any table. */
export async function planChange(
  config: Config,
  owner: OwnerDatabase,
  rows: 'all' | 'none',
): Promise<object> {
  const planned = await planMigration({ owner, config, instance: 'svc mcp', log: silentLog, rows });
  if (planned.kind === 'refused') return { refused: renderProblems(planned.problems) };
  const { steps, problems, notes } = planned.plan;
  return {
    steps: steps.map((step) => ({ step: stepLine(step), sql: step.sql })),
    refused: renderProblems(problems),
    notes,
    dataSteps: planned.dataSteps,
  };
}

export function listTables(config: Config): object {
  const { tables, views = [] } = toModel(config);
  return {
    tables: tables.map(({ schema, name, columns, rls }) => ({
      schema,
      name,
      columns: columns.map((column) => column.name),
      rls: typeof rls === 'string' ? rls : `${rls.length} policies`,
    })),
    views: views.map(({ schema, name }) => ({ schema, name })),
    functions: toModel(config).functions.map(({ schema, name }) => ({ schema, name })),
    buckets: toModel(config).buckets.map(({ name }) => name),
  };
}

/** Returns the declaration of a table, and the estimated number of rows from the statistics. */
export async function describeTable(
  config: Config,
  named: string,
  owner: OwnerDatabase | undefined,
): Promise<object> {
  const [schema, name] = named.includes('.') ? named.split('.', 2) : ['public', named];
  const table = toModel(config).tables.find(
    (candidate) => candidate.schema === schema && candidate.name === name,
  );
  if (!table) throw new Problem('relation_not_found', 404, `There is no table ${named} in svc.yaml`);
  const [row] = owner
    ? await owner.query<{ rows: number }>(
        sql`select reltuples::float8 as rows from pg_class where oid = to_regclass(${`${schema}.${name}`})`,
      )
    : [];
  return { ...table, estimatedRows: row && row.rows >= 0 ? row.rows : null };
}

export function listFunctions(config: Config): object {
  return {
    code: config.functions.map(({ name, file, authRequired }) => ({ name, file, authRequired })),
    sql: toModel(config).functions.map(({ schema, name, args }) => ({ schema, name, args })),
  };
}

export function readFunction(config: Config, directory: string, name: string): string {
  const code = config.functions.find((candidate) => candidate.name === name);
  if (code) {
    const path = relative(directory, join(directory, code.file));
    if (path.startsWith('..') || isAbsolute(path))
      throw new Problem('file_outside', 403, `${code.file} is outside of the project`);
    return readFileSync(join(directory, path), 'utf8');
  }
  const statement = toModel(config).functions.find((candidate) => candidate.name === name);
  if (statement) return JSON.stringify(statement, null, 2);
  throw new Problem('function_not_found', 404, `There is no function ${name} in svc.yaml`);
}
