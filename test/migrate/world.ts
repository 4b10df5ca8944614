// A separate provisioned database per test file, with the operations `apply` and `plan`.
import pg from 'pg';
import { silentLog } from '../../src/log/log.ts';
import { planMigration } from '../../src/migrate/commands/plan.ts';
import { migrate, type MigrateOptions, type MigrationOutcome } from '../../src/migrate/migrate.ts';
import type { MigrationPlan } from '../../src/migrate/make-plan.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { provisionAt } from '../support/provision.ts';
import { createDatabase, templateDatabase } from '../support/database.ts';
import { parseConfig } from './parse-config.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

export type World = {
  readonly url: string;
  readonly ownerUrl: string;
  readonly owner: OwnerDatabase;
  /** Runs a statement as superuser. */
  sql(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  apply(
    yaml: string,
    policy?: MigrateOptions['policy'],
    more?: Partial<MigrateOptions>,
  ): Promise<MigrationOutcome>;
  /** Applies the file and expects no refusal and an empty second plan. */
  settle(yaml: string, policy?: MigrateOptions['policy']): Promise<MigrationOutcome>;
  plan(yaml: string, policy?: MigrateOptions['policy']): Promise<MigrationPlan>;
  /** Applies the file and returns the codes and messages of the refusal. */
  refusal(yaml: string, policy?: MigrateOptions['policy']): Promise<string[]>;
  /** Removes all objects and records, as before the first file. */
  empty(): Promise<void>;
  close(): Promise<void>;
};

const EMPTY = `
  do $$ declare one record; begin
    for one in select policyname, schemaname, tablename from pg_policies
      where schemaname in ('storage', 'realtime') loop
      execute format('drop policy %I on %I.%I', one.policyname, one.schemaname, one.tablename);
    end loop;
  end $$;
  set client_min_messages = error;
  drop schema if exists public, crm cascade;
  create schema public authorization svc_owner;
  grant usage on schema public to anon, authenticated, service_role;
  delete from svc_meta.step; delete from svc_meta.run; delete from svc_meta.object;
  delete from svc_meta.stamp; delete from svc_meta.data_step`;

export async function aWorld(): Promise<World> {
  const template = await templateDatabase('migrate', async (url) => {
    await provisionAt(url);
    await ensureStorage(url);
  });
  const database = await createDatabase({ template });
  const { ownerUrl } = await provisionAt(database.url);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc-test',
    max: 4,
    idleTimeoutMs: 5_000,
  });
  const admin = new pg.Pool({ connectionString: database.url, max: 2 });
  admin.on('error', () => {});
  const options = (yaml: string, policy: MigrateOptions['policy']): MigrateOptions => ({
    owner,
    config: parseConfig(yaml),
    log: silentLog,
    policy: { allowRollback: true, ...policy },
  });
  const apply: World['apply'] = async (yaml, policy, more) => {
    const outcome = await migrate({ ...options(yaml, policy), ...more });
    if (outcome.kind === 'applied') {
      const late = await outcome.background;
      if (late.length > 0) throw new Error(late.map((problem) => problem.message).join('\n'));
    }
    return outcome;
  };
  const plan: World['plan'] = async (yaml, policy) => {
    const planned = await planMigration(options(yaml, policy));
    if (planned.kind === 'refused')
      throw new Error(
        planned.problems
          .map((problem) => `${problem.place ?? ''} ${problem.at}: ${problem.message}`)
          .join('\n'),
      );
    return planned.plan;
  };
  const run: World['sql'] = async (text, values = []) => {
    const result = await admin.query(text, values);
    return Array.isArray(result) ? [] : result.rows;
  };
  return {
    url: database.url,
    ownerUrl,
    owner,
    sql: run,
    async empty() {
      await run(EMPTY);
    },
    apply,
    async settle(yaml, policy) {
      const outcome = await apply(yaml, policy);
      if (outcome.kind === 'refused')
        throw new Error(
          `refused: ${outcome.problems.map(({ code, at, message }) => `${code} ${at}: ${message}`).join('\n')}`,
        );
      if (outcome.kind === 'superseded') throw new Error('superseded');
      const after = await plan(yaml, policy);
      if (after.steps.length > 0 || after.problems.length > 0) {
        const rest = [...after.steps.map(({ sql }) => sql), ...after.problems.map(({ message }) => message)];
        throw new Error(`a second plan is not empty:\n${rest.join('\n')}`);
      }
      return outcome;
    },
    plan,
    async refusal(yaml, policy) {
      const outcome = await apply(yaml, policy);
      if (outcome.kind !== 'refused') throw new Error(`expected a refusal, got ${outcome.kind}`);
      return outcome.problems.map(
        (problem) => `${problem.code} ${problem.place ?? problem.at}: ${problem.message}`,
      );
    },
    async close() {
      await owner.close();
      await admin.end();
      await database.drop();
    },
  };
}

// Storage policies need this table.
async function ensureStorage(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`set role svc_owner;
    create table if not exists storage.objects (id uuid primary key default gen_random_uuid(), bucket_id text not null,
      name text not null, owner_id text, version text not null default gen_random_uuid(), metadata jsonb,
      path_tokens text[] generated always as (string_to_array(name, '/')) stored)`);
  await client.end();
}
