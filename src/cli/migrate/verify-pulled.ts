// Checks that a pulled file changes nothing in the database that it was pulled from.
import type { Config } from '../../config/config.ts';
import { silentLog } from '../../log/log.ts';
import { migrationPolicy } from '../../migrate/apply/policy.ts';
import { ownershipTaker } from '../../migrate/apply/transfer-ownership.ts';
import { planMigration } from '../../migrate/commands/plan.ts';
import { stepLine } from '../../migrate/commands/render.ts';
import type { Step } from '../../migrate/plan/step.ts';
import { renderProblems } from '../../migrate/problem.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

export type Verdict =
  | { readonly kind: 'same' }
  | { readonly kind: 'differs'; readonly lines: readonly string[] }
  | { readonly kind: 'not-compared'; readonly why: string };

/**
 * Compares without changing the database. If a comparison needs svc to be set up first, `svc migrate plan`
 * has to do it.
 * `repaired`: places of functions that the file changes on purpose.
 */
export async function verifyPulled(
  administrator: OwnerDatabase,
  config: Config,
  repaired: readonly string[],
): Promise<Verdict> {
  const why = await obstacle(administrator);
  if (why !== undefined) return { kind: 'not-compared', why };
  const ownership = ownershipTaker(administrator, migrationPolicy(config.migrations));
  const options = { owner: administrator, config, instance: 'svc migrate', log: silentLog, ownership };
  const planned = await planMigration(options);
  if (planned.kind === 'refused') return { kind: 'differs', lines: renderProblems(planned.problems) };
  const { steps, problems } = planned.plan;
  const lines = [
    ...renderProblems(problems),
    ...steps.filter((step) => isDifference(step, repaired)).map(stepLine),
  ];
  return lines.length === 0 ? { kind: 'same' } : { kind: 'differs', lines };
}

/** Ignores grants to PUBLIC, which become grants to the roles of the file when svc takes over the objects. */
function isDifference({ sql: text, stage, hazards, identity }: Step, repaired: readonly string[]): boolean {
  if (repaired.includes(identity)) return false;
  if (stage === 'grants') return hazards.includes('AUTHZ_OPEN');
  return !/^(?:grant|revoke) \w+(?: \w+)* on (?:function|procedure|schema) /i.test(text);
}

async function obstacle(administrator: OwnerDatabase): Promise<string | undefined> {
  const [facts] = await administrator.query<{ ready: boolean; may: boolean }>(sql`
    select to_regclass('svc_meta.run') is not null as ready,
      exists (select from pg_roles r where r.rolname = current_user and r.rolsuper) as may`);
  if (facts?.ready !== true) return 'svc has not been set up in this database';
  if (!facts.may) return 'the comparison needs a superuser';
  const [run] = await administrator.query(sql`select from svc_meta.run limit 1`);
  return run === undefined ? undefined : 'svc already manages this database with a larger file';
}
