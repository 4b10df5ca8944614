// `svc serve`: the same file in production. Refuses to start without keys; changes the database only with
// `--migrate`. Only the options are here: what serves is loaded when it is needed.
import { Command, Option } from 'commander';
import type { DashboardMode } from '../dashboard-api/contract.ts';
import { parseDeploySeq, parsePort } from './environment.ts';
import type { Terminal } from './terminal.ts';

export type ServeOptions = {
  config?: string;
  seed?: string;
  port?: number;
  host: string;
  migrate?: boolean;
  strict?: boolean;
  dashboard: DashboardMode | 'off';
  deploySeq?: number;
  allowRollback?: boolean;
  superseded: 'serve' | 'refuse';
  untilStdinEnds?: boolean;
};

export function serveCommand(terminal: Terminal): Command {
  return (
    new Command('serve')
      .description('serve svc.yaml in production, on the PostgreSQL of SVC_DATABASE_URL')
      .option(
        '-c, --config <location>',
        'file, https:// or s3:// location of the configuration; database: the one that instances share there',
      )
      .option('--seed <file>', 'with --config database: the first configuration, while there is none')
      .option('-p, --port <port>', 'listen port', parsePort)
      .option('--host <address>', 'listen address', '0.0.0.0')
      .option('--migrate', 'apply pending schema changes before serving')
      .option('--strict', 'refuse to start with an open table (no rls key)')
      .option(
        '--deploy-seq <number>',
        'number of this deployment; one that is lower than the last does not migrate',
        parseDeploySeq,
      )
      .option('--allow-rollback', 'apply this file even if a newer one has replaced it')
      .addOption(
        new Option(
          '--superseded <what>',
          'when a newer file has replaced this one: serve the database as it is, or refuse to start',
        )
          .choices(['serve', 'refuse'])
          .default('serve'),
      )
      .addOption(
        new Option(
          '--dashboard <mode>',
          'serve the dashboard at /dashboard: read and write, read-only, or not at all',
        )
          .choices(['readwrite', 'readonly', 'off'])
          .default('readonly'),
      )
      // For `svc receive`, which holds the other end: a release ends with its receiver.
      .addOption(new Option('--until-stdin-ends').hideHelp())
      .action(async (options: ServeOptions) => {
        const { serveProcess } = await import('./serve-process.ts');
        await serveProcess(options, terminal);
      })
  );
}
