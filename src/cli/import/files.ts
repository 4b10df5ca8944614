// `svc import supabase files`: copies the objects of all declared buckets.
import type { Command } from 'commander';
import type { z } from 'zod';
import { copyFiles } from '../../import/files.ts';
import { checkSource } from '../../import/source.ts';
import { requireDatabase, type Environment } from '../environment.ts';
import { EXIT } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject } from '../project/project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { type BytesOptions, openBytesSource, withBytes } from './bytes-options.ts';
import { describeUnproven } from './describe.ts';
import { FILES } from './results.ts';
import { OWNER, sourceAddress, withSource, type ImportContext, type SourceOptions } from './source.ts';

type FilesOptions = SourceOptions & BytesOptions & { config?: string };

export function filesCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withBytes(
      withSource('files', 'copy the files of all declared buckets; repeatable').option(
        '-c, --config <file>',
        'the configuration file',
      ),
    ),
    terminal,
    FILES,
    (out, options: FilesOptions) => run(options, environment(), out),
  );
}

async function run(
  options: FilesOptions,
  environment: Environment,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof FILES>>> {
  const project = await loadProject({ ...options, mode: 'production' }, terminal);
  const env = { ...environment, ...project.env };
  const source = await sourceAddress(options, env, terminal);
  requireDatabase(env);
  const bytes = openBytesSource(options, env);
  await checkSource(source);
  const { config, directory } = project;
  const { copied, unchanged, removed, missing, unproven } = await withOwner(
    env,
    directory,
    { ...OWNER, max: 8 },
    (owner) => copyFiles({ source, owner, config, bytes }),
  ).finally(() => bytes.close());
  terminal.print(`files: ${copied} copied, ${unchanged} unchanged, ${removed} removed`);
  if (unproven.length > 0) terminal.print(describeUnproven(unproven));
  const data = { copied, unchanged, removed, missing: [...missing], unproven: [...unproven] };
  if (missing.length === 0) return { data };
  const lines = missing.map(({ name, why }) => `  ${name}: ${why}`);
  const report = [`${missing.length} files are missing:`, ...lines].join('\n');
  return { data, exitCode: EXIT.problem, report };
}
