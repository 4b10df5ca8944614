// `svc backup`: the database and the stored files at one moment, into a folder.
import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { makeBackup } from '../../backup/backup.ts';
import { listBackups, type Manifest, readManifest } from '../../backup/manifest.ts';
import { parseKeep } from '../../backup/keep.ts';
import { sealFor } from '../../backup/seal.ts';
import { pruneBackups, type Pruned } from '../../backup/prune.ts';
import { chooseBackup, verifyBackup } from '../../backup/restore.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { approximateBytes } from '../../lib/bytes.ts';
import { raw } from '../../postgres/sql.ts';
import { createBackend } from '../../storage/storage.ts';
import { verifyLocation } from '../../storage/backend/location.ts';
import { requireKeys } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { asJson } from '../report/json-report.ts';
import { loadServed } from '../served-project.ts';
import type { Terminal } from '../terminal.ts';

type Options = {
  config?: string;
  to?: string;
  engine: Engine;
  skipMissing?: boolean;
  allowMissing?: boolean;
  keep?: string;
  encryptTo: readonly string[];
  dryRun?: boolean;
  json?: boolean;
};

type Engine = 'auto' | 'pg_dump' | 'copy';

export function backupCommand(terminal: Terminal): Command {
  const command = new Command('backup')
    .description('save the database and the stored files of one moment; everything goes on meanwhile')
    .option('-c, --config <file>', 'the configuration file')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .addOption(
      new Option('--engine <name>', 'who saves the database: pg_dump, or svc itself where there is none')
        .choices(['auto', 'pg_dump', 'copy'])
        .default('auto'),
    )
    .option('--allow-missing', 'go on without things that only pg_dump saves, and name them')
    .option('--skip-missing', 'go on without files whose bytes are gone, and name them')
    .option(
      '--encrypt-to <recipient>',
      'a public key of age; may be repeated',
      (one, all) => [...all, one],
      [] as readonly string[],
    )
    .option('--keep <periods>', 'then remove older ones, as prune does: 7d,4w,12m')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  svc backup --to /var/backups/svc\n\nIt runs pg_dump where that is of the version of the server or newer; without it svc saves what svc.yaml declares. Secrets of the environment are not in it: keep SVC_SECRET_KEY elsewhere.',
    )
    .action(async (options: Options) => await backup(options, terminal));
  command
    .command('list')
    .description('name the backups of a folder, oldest first')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .option('--json', 'print them as JSON')
    .action(async (own: Options, { parent }: Command) => {
      const options = { ...parent?.opts<Options>(), ...own };
      const target = targetOf(options, process.env);
      const found: Array<{ readonly id: string; readonly manifest: Manifest }> = [];
      for (const id of await listBackups(target))
        found.push({ id, manifest: await readManifest(join(target, 'backups', id)) });
      if (options.json)
        terminal.print(
          JSON.stringify(
            found.map(({ id, manifest }) => ({ id, ...manifest, rows: undefined })),
            null,
            2,
          ),
        );
      else if (found.length === 0) terminal.print(`no whole backup in ${target}`);
      else terminal.print(found.map(({ id, manifest }) => `${id}  ${describe(manifest)}`).join('\n'));
    });
  command
    .command('prune')
    .description('remove old backups, and the stored files that no other one names')
    .option('--keep <periods>', 'the newest of the last days, weeks, months: 7d,4w,12m')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .option('--dry-run', 'say what would go, and remove nothing')
    .option('--json', 'print the result as JSON')
    .action(async (own: Options, { parent }: Command) => {
      const options = { ...parent?.opts<Options>(), ...own };
      const { keep } = options;
      if (keep === undefined)
        throw failure(EXIT.misuse, 'it is not said which backups stay', 'Say for example --keep 7d,4w,12m.');
      const find = async (): Promise<Pruned> =>
        await pruneBackups(targetOf(options, process.env), parseKeep(keep), options);
      if (options.json) return await asJson('backup prune', terminal, async () => ({ data: await find() }));
      terminal.print(describePruned(await find(), options.dryRun));
    });
  command
    .command('verify')
    .description('read every byte of a backup and compare it with what was written')
    .argument('[id]', 'which one; the newest when absent')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .action(async (id: string | undefined, own: Options, { parent }: Command) => {
      const target = targetOf({ ...parent?.opts<Options>(), ...own }, process.env);
      const folder = await chooseBackup(target, id);
      terminal.print(`${folder} is whole: ${describe(await verifyBackup(target, folder))}`);
    });
  return command;
}

function describePruned({ removed, kept, files, bytes, busy }: Pruned, dryRun = false): string {
  const would = dryRun ? 'would be ' : '';
  return [
    ...removed.map((id) => `${would}removed  ${id}`),
    ...kept.map((id) => `kept  ${id}`),
    ...(files > 0
      ? [`${files} stored files that none of them names ${would}removed: ${approximateBytes(bytes)}`]
      : []),
    ...(busy ? ['A backup is being made: stored files stay until the next time.'] : []),
  ].join('\n');
}

async function backup(options: Options, terminal: Terminal): Promise<void> {
  const keep = options.keep === undefined ? undefined : parseKeep(options.keep);
  const { config, env, directory } = await loadServed(options, terminal);
  const seal = await sealFor(
    options.encryptTo.length > 0 ? options.encryptTo : recipientsOf(env['SVC_BACKUP_RECIPIENTS']),
  );
  const target = targetOf(options, env);
  const { current: secret } = environmentSecrets(requireKeys(env).secret, env);
  const backend = createBackend(config);
  const result = await withOwner(
    env,
    directory,
    { applicationName: 'svc-backup', max: 3 },
    async (owner, admin, roles) => {
      const own = roles.owner.direct;
      await verifyLocation(owner, backend);
      // A superuser reads everything; any other administrator less than the owner.
      const [row] = await owner.query<{ superuser: boolean }>(
        raw(
          `select rolsuper as superuser from pg_roles where rolname = '${admin.user.replaceAll("'", "''")}'`,
        ),
      );
      return await makeBackup({
        target,
        owner,
        address: row?.superuser ? admin : own,
        ownAddress: own,
        engine: options.engine,
        backend,
        config,
        secret,
        env,
        skipMissing: options.skipMissing === true,
        allowMissing: options.allowMissing === true,
        seal,
      });
    },
  ).finally(() => backend.close());
  const { id, folder, manifest, copied } = result;
  const pruned = keep === undefined ? undefined : await pruneBackups(target, keep);
  if (options.json) {
    terminal.print(JSON.stringify({ id, folder, copied, ...manifest, rows: undefined }, null, 2));
    return;
  }
  terminal.print(`${id}  ${describe(manifest)}, ${copied} of the files new here`);
  for (const one of manifest.beside) terminal.printError(`not saved without pg_dump: ${one}\n`);
  for (const path of manifest.blobs.missing) terminal.printError(`without its bytes: ${path}\n`);
  if (pruned !== undefined) terminal.print(describePruned(pruned));
}

function recipientsOf(text = ''): readonly string[] {
  return text.split(/[\s,]+/).filter((one) => one !== '');
}

export function targetOf(
  { to }: { readonly to?: string },
  env: Readonly<Record<string, string | undefined>>,
): string {
  const named = to ?? env['SVC_BACKUP_TARGET'];
  if (named === undefined || named === '')
    throw failure(
      EXIT.misuse,
      'no folder for backups is named',
      'Say --to <folder>, or set SVC_BACKUP_TARGET.',
    );
  if (/^\w+:\/\//.test(named))
    throw failure(
      EXIT.misuse,
      `${named} is no folder`,
      'Back up into a folder, and copy that where you like.',
    );
  return resolve(named);
}

export function describe({ takenAt, postgres, rows, blobs, parts, recipients }: Manifest): string {
  const total = Object.values(rows).reduce((sum, one) => sum + one, 0);
  const bytes = Object.values(parts).reduce((sum, one) => sum + one.bytes, 0);
  const said = recipients.length > 0 && total === 0 ? 'encrypted rows' : `${total} rows`;
  return `${takenAt}, PostgreSQL ${Math.floor(postgres / 10_000)}, ${said} (${approximateBytes(bytes)}), ${blobs.count} files (${approximateBytes(blobs.bytes)})`;
}
