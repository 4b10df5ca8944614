// `prune`, `pull` and `rename`: dropping what was retired, and writing the file.
import { writeFile } from 'node:fs/promises';
import { hasCode } from '../../lib/error-code.ts';
import { policyOf } from '../../migrate/apply/policy.ts';
import { renameInFile } from '../../migrate/commands/edit-file.ts';
import { prune } from '../../migrate/commands/prune.ts';
import { renderPulled } from '../../migrate/commands/pull.ts';
import { toModel } from '../../migrate/schema/declared.ts';
import { readLive } from '../../migrate/schema/read-live.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { failure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT, refusal } from './exit.ts';
import type { CommonOptions } from './options.ts';
import { openProject, withDatabase } from './project.ts';

export async function pruneRetired(
  names: readonly string[],
  options: CommonOptions & { allow?: string[] },
  terminal: Terminal,
): Promise<void> {
  await withDatabase(options, terminal, async ({ project, owner }) => {
    const { config } = project;
    const pruned = await owner.session((session) =>
      prune(session, {
        names,
        allow: options.allow ?? [],
        pruneAfterMs: config.migrations.pruneAfterMs,
        now: new Date(),
        model: toModel(config),
        locks: policyOf(config.migrations),
      }),
    );
    if (pruned.problems.length > 0) throw refusal(pruned.problems);
    if (pruned.dropped.length === 0)
      return terminal.print('nothing to prune: nothing retired is old enough (name it to drop it sooner)');
    for (const one of pruned.dropped) terminal.print(`dropped ${one.identity}`);
  });
}

export async function pull(
  options: { schema: string[]; table?: string; out?: string },
  terminal: Terminal,
): Promise<void> {
  const database = databaseAddresses(process.env);
  if (!database)
    throw failure(MIGRATE_EXIT.unreachable, 'SVC_DATABASE_URL is not set', 'It names the database to read.');
  const pattern =
    options.table === undefined
      ? undefined
      : new RegExp(`^${options.table.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`);
  // As the user of the address: a database that is only read is not provisioned for it.
  const owner = new OwnerDatabase({
    address: database.direct,
    applicationName: 'svc-migrate',
    max: 1,
    idleTimeoutMs: 5_000,
  });
  try {
    const live = await owner.session((session) => readLive(session, options.schema));
    const isTaken = (key: string): boolean =>
      pattern === undefined || pattern.test(key) || pattern.test(key.slice(key.indexOf('.') + 1));
    const text = renderPulled(live, isTaken);
    if (options.out === undefined) return terminal.print(text.trimEnd());
    await writeFile(options.out, text, { flag: 'wx' }).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
      throw failure(
        MIGRATE_EXIT.refused,
        `${options.out} is there already, and pull writes over nothing`,
        'Name another file with --out, or move that one away.',
      );
    });
    terminal.print(
      `wrote ${options.out}: ${live.tables.size} tables. Look at it, then: svc migrate plan -c ${options.out}`,
    );
  } finally {
    await owner.close();
  }
}

export async function rename(
  path: string,
  name: string,
  options: CommonOptions,
  terminal: Terminal,
): Promise<void> {
  const { config } = await openProject(options, terminal);
  const { source } = config;
  if (source.directory === undefined)
    throw failure(MIGRATE_EXIT.invalid, 'a remote file cannot be edited here');
  await writeFile(source.name, renameInFile(source.text, path, name));
  terminal.print(
    `${source.name}: ${path} is now ${name}, with renamed_from. Expressions that name it are yours to change; svc validate and svc migrate plan find them.`,
  );
}
