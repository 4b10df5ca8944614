// `prune` drops retired objects. `rename` renames in the file.
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { z } from 'zod';
import { migrationPolicy } from '../../migrate/apply/policy.ts';
import { textsOfParts } from '../../config/edit/edit-parts.ts';
import { readSource } from '../../config/read/source.ts';
import { renameInFiles } from '../../migrate/commands/edit-file.ts';
import { prune } from '../../migrate/commands/prune.ts';
import { toModel } from '../../migrate/schema/declared.ts';
import { failure } from '../exit.ts';
import type { Findings } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT, refusal } from './exit.ts';
import type { CommonOptions } from './options.ts';
import { openProject, withDatabase } from './project.ts';
import type { PRUNED, RENAMED } from './results.ts';

export async function pruneRetired(
  names: readonly string[],
  options: CommonOptions & { allow?: string[] },
  terminal: Terminal,
): Promise<Findings<z.infer<typeof PRUNED>>> {
  return await withDatabase(options, terminal, async ({ project, owner }) => {
    const { config } = project;
    const pruned = await owner.session((session) =>
      prune(session, {
        names,
        allow: options.allow ?? [],
        pruneAfterMs: config.migrations.pruneAfterMs,
        now: new Date(),
        model: toModel(config),
        locks: migrationPolicy(config.migrations),
      }),
    );
    if (pruned.problems.length > 0) throw refusal(pruned.problems);
    if (pruned.dropped.length === 0)
      terminal.print('nothing to prune: no retired object is old enough (pass its name to drop it sooner)');
    for (const one of pruned.dropped) terminal.print(`dropped ${one.identity}`);
    return { data: { dropped: pruned.dropped.map(({ identity }) => identity) } };
  });
}

export async function rename(
  path: string,
  name: string,
  options: CommonOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof RENAMED>>> {
  const { config } = await openProject(options, terminal);
  const { source } = config;
  if (source.directory === undefined) throw failure(MIGRATE_EXIT.invalid, 'a remote file cannot be edited');
  const written = await readSource(source.name, process.cwd());
  const changed = renameInFiles(textsOfParts(written), path, name);
  const partFile = (part: string): string => (part === '' ? source.name : join(dirname(source.name), part));
  for (const [part, text] of changed) await writeFile(partFile(part), text);
  const files = [...changed.keys()].map(partFile);
  terminal.print(
    `${files.join(', ')}: ${path} is now ${name}, with renamed_from. ` +
      'Change expressions that use it yourself; svc validate and svc migrate plan find them.',
  );
  return { data: { path, name, files } };
}
