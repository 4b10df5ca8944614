// `svc import supabase report` and `prepare`: both only read the source.
import type { Command } from 'commander';
import { prepare } from '../../import/prepare.ts';
import { makeReport, readTarget, type Report } from '../../import/report.ts';
import { readSource } from '../../import/source.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import type { Environment } from '../environment.ts';
import { givePulled } from '../migrate/pull.ts';
import { PULLED } from '../migrate/results.ts';
import { reporting } from '../report/reporting.ts';
import { describeReport } from './describe.ts';
import { REPORT } from './results.ts';
import { readKeys, sourceAddress, withSource, type ImportContext, type SourceOptions } from './source.ts';

export function reportCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withSource('report', 'report what can be imported, and what cannot and why; changes nothing'),
    terminal,
    REPORT,
    async (out, options: SourceOptions) => {
      const env = environment();
      const report = await readReport(await sourceAddress(options, env, out), env);
      out.print(describeReport(report));
      const { moves, decide, stays } = report;
      return { data: { moves: [...moves], decide: [...decide], stays: [...stays] } };
    },
  );
}

async function readReport(source: DatabaseAddress, env: Environment): Promise<Report> {
  const target = databaseAddresses(env)?.direct;
  const facts = target && (await readTarget(target));
  return await readSource(source, (database) => makeReport(database, facts, readKeys(env)));
}

export function prepareCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withSource(
      'prepare',
      'write tables, policies, functions and buckets of the source as svc.yaml; does not change the source',
    )
      .option('--out <file>', 'file to write (default: print)')
      .option('--force', 'overwrite a file with other content'),
    terminal,
    PULLED,
    async (out, options: SourceOptions & { out?: string; force?: true }) =>
      await givePulled(await prepare(await sourceAddress(options, environment(), out)), options, out),
  );
}
