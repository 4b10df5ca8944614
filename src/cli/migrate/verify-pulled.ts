// A pulled file must ask for nothing in the database that it was pulled from.
import type { Config } from '../../config/config.ts';
import { silentLog } from '../../log/log.ts';
import { policyOf } from '../../migrate/apply/policy.ts';
import { ownershipTaker } from '../../migrate/apply/take-ownership.ts';
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

/** Changes nothing. What cannot be compared without setting svc up in the database first is left to `svc migrate plan`. */
export async function verifyPulled(administrator: OwnerDatabase, config: Config): Promise<Verdict> {
  const why = await obstacle(administrator);
  if (why !== undefined) return { kind: 'not-compared', why };
  const ownership = ownershipTaker(administrator, policyOf(config.migrations));
  const options = { owner: administrator, config, instance: 'svc migrate', log: silentLog, ownership };
  const planned = await planMigration(options);
  if (planned.kind === 'refused') return { kind: 'differs', lines: renderProblems(planned.problems) };
  const { steps, problems } = planned.plan;
  const lines = [...renderProblems(problems), ...steps.filter(isDifference).map(stepLine)];
  return lines.length === 0 ? { kind: 'same' } : { kind: 'differs', lines };
}

/** Who may call functions and use schemas is settled when svc takes them over. */
function isDifference({ sql: text }: Step): boolean {
  return !/^(?:grant|revoke) \w+(?: \w+)* on (?:function|procedure|schema) /i.test(text);
}

async function obstacle(administrator: OwnerDatabase): Promise<string | undefined> {
  const [facts] = await administrator.query<{ ready: boolean; may: boolean }>(sql`
    select to_regclass('svc_meta.run') is not null as ready,
      exists (select from pg_roles r where r.rolname = current_user and r.rolsuper) as may`);
  if (facts?.ready !== true) return 'svc has not been set up in this database';
  if (!facts.may) return 'that takes a superuser';
  const [run] = await administrator.query(sql`select from svc_meta.run limit 1`);
  return run === undefined ? undefined : 'svc looks after this database already, with a file that says more';
}
