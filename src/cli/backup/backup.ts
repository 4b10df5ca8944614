// `svc backup`: the database and the stored files at one moment, into a folder or a bucket.
import { basename } from 'node:path';
import { Command, Option } from 'commander';
import { z } from 'zod';
import { makeBackup } from '../../backup/backup.ts';
import { folderOf, listBackups, readManifest } from '../../backup/manifest.ts';
import { parseKeep } from '../../backup/keep.ts';
import { sealFor } from '../../backup/seal.ts';
import { recordBackup, recordVerified } from '../../backup/ledger.ts';
import { pruneBackups, type Pruned } from '../../backup/prune.ts';
import { chooseBackup, verifyBackup } from '../../backup/restore.ts';
import type { Target } from '../../backup/target/target.ts';
import type { Config } from '../../config/config.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { approximateBytes } from '../../lib/bytes.ts';
import { raw } from '../../postgres/sql.ts';
import { createBackend } from '../../storage/storage.ts';
import { verifyLocation } from '../../storage/backend/location.ts';
import { requireKeys } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import { loadServed } from '../served-project.ts';
import type { Terminal } from '../terminal.ts';
import { targetOf } from './place.ts';
import { rehearse } from './rehearse.ts';
import { describe, SUMMARY, summaryOf } from './summary.ts';

const PRUNED = z.strictObject({
  removed: z.array(z.string()),
  kept: z.array(z.string()),
  files: z.int().describe('stored files that no backup names any more'),
  bytes: z.int().describe('of those'),
  busy: z.boolean().describe('a backup was being made: stored files stay until the next time'),
});
const MADE = z.strictObject({
  target: z.string(),
  backup: SUMMARY,
  copied: z.int().describe('stored files that the target did not have yet'),
  pruned: PRUNED.nullable().describe('null without --keep'),
});
const LISTED = z.strictObject({ target: z.string(), backups: z.array(SUMMARY).describe('oldest first') });
const VERIFIED = z.strictObject({
  target: z.string(),
  backup: SUMMARY,
  restored: z.boolean().describe('also into a database, with --restore'),
});

type Options = {
  config?: string;
  to?: string;
  engine: Engine;
  sameBucket?: boolean;
  verify?: boolean;
  skipMissing?: boolean;
  allowMissing?: boolean;
  keep?: string;
  encryptTo: readonly string[];
  dryRun?: boolean;
};

type VerifyOptions = Options & { readonly restore?: boolean; readonly identity?: string };

type Engine = 'auto' | 'pg_dump' | 'copy';

export function backupCommand(terminal: Terminal): Command {
  const command = new Command('backup')
    .description('save the database and the stored files of one moment; everything goes on meanwhile')
    .option('-c, --config <file>', 'the configuration file')
    .option('--to <place>', 'where backups are kept: a folder, or s3://bucket/prefix; SVC_BACKUP_TARGET')
    .option('--same-bucket', 'into the bucket of the stored files, under a prefix')
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
    .option('--verify', 'then read it, and compare every byte with what was written')
    .option('--keep <periods>', 'then remove older ones, as prune does: 7d,4w,12m')
    .addHelpText(
      'after',
      '\nExample:\n  svc backup --to /var/backups/svc\n\nIt runs pg_dump where that is of the version of the server or newer; without it svc saves what svc.yaml declares. Secrets of the environment are not in it: keep SVC_SECRET_KEY elsewhere.',
    );
  reporting(command, terminal, MADE, async (out, options: Options) => await backup(options, out));
  const list = command
    .command('list')
    .description('name the backups that are kept, oldest first')
    .option('--to <place>', 'where backups are kept: a folder, or s3://bucket/prefix; SVC_BACKUP_TARGET');
  reporting(list, terminal, LISTED, async (out, own: Options, { parent }: Command) => {
    const target = await targetOf({ ...parent?.opts<Options>(), ...own }, process.env);
    try {
      const backups: Array<z.infer<typeof SUMMARY>> = [];
      for (const id of await listBackups(target)) {
        const manifest = await readManifest(target, folderOf(id));
        backups.push(summaryOf(id, manifest));
        out.print(`${id}  ${describe(manifest)}`);
      }
      if (backups.length === 0) out.print(`no whole backup in ${target.name}`);
      return { data: { target: target.name, backups } };
    } finally {
      target.close();
    }
  });
  const prune = command
    .command('prune')
    .description('remove old backups, and the stored files that no other one names')
    .option('--keep <periods>', 'the newest of the last days, weeks, months: 7d,4w,12m')
    .option('--to <place>', 'where backups are kept: a folder, or s3://bucket/prefix; SVC_BACKUP_TARGET')
    .option('--dry-run', 'say what would go, and remove nothing');
  reporting(prune, terminal, PRUNED, async (out, own: Options, { parent }: Command) => {
    const options = { ...parent?.opts<Options>(), ...own };
    const { keep } = options;
    if (keep === undefined)
      throw failure(EXIT.misuse, 'it is not said which backups stay', 'Say for example --keep 7d,4w,12m.');
    const target = await targetOf(options, process.env);
    const pruned = await pruneBackups(target, parseKeep(keep), options).finally(() => target.close());
    out.print(describePruned(pruned, options.dryRun));
    return { data: forPrograms(pruned) };
  });
  const verify = command
    .command('verify')
    .description('read every byte of a backup and compare it with what was written')
    .argument('[id]', 'which one; the newest when absent')
    .option('--to <place>', 'where backups are kept: a folder, or s3://bucket/prefix; SVC_BACKUP_TARGET')
    .option('--restore', 'and restore it, into a database that is made for it and removed again')
    .option(
      '--identity <file>',
      'with --restore, private keys of age for a backup that is encrypted; SVC_BACKUP_IDENTITY_FILE',
    );
  reporting(
    verify,
    terminal,
    VERIFIED,
    async (out, named: string | undefined, own: VerifyOptions, { parent }: Command) => {
      const options = { ...parent?.opts<Options>(), ...own };
      const project = options.restore === true ? await loadServed(options, out) : undefined;
      const target = await targetOf(options, project?.env ?? process.env);
      try {
        const folder = await chooseBackup(target, named);
        const manifest = await verifyBackup(target, folder);
        if (project) await rehearse({ target, folder, identity: options.identity, project });
        const found = project ? 'is whole, and was restored' : 'is whole';
        out.print(`${target.name}/${folder} ${found}: ${describe(manifest)}`);
        const backup = summaryOf(basename(folder), manifest);
        return { data: { target: target.name, backup, restored: project !== undefined } };
      } finally {
        target.close();
      }
    },
  );
  return command;
}

function forPrograms({ removed, kept, files, bytes, busy }: Pruned): z.input<typeof PRUNED> {
  return { removed: [...removed], kept: [...kept], files, bytes, busy };
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

async function backup(options: Options, terminal: Terminal): Promise<Findings<z.input<typeof MADE>>> {
  const keep = options.keep === undefined ? undefined : parseKeep(options.keep);
  const { config, env, directory } = await loadServed(options, terminal);
  const seal = await sealFor(
    options.encryptTo.length > 0 ? options.encryptTo : recipientsOf(env['SVC_BACKUP_RECIPIENTS']),
  );
  const target = await targetOf(options, env);
  assertApart(target, config, options);
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
      const made = await makeBackup({
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
      const kept = { ...made, target: target.name };
      await recordBackup(owner, kept);
      if (options.verify === true) {
        await verifyBackup(target, made.folder);
        await recordVerified(owner, kept);
      }
      return made;
    },
  ).finally(() => backend.close());
  const { id, manifest, copied } = result;
  const pruned = keep === undefined ? undefined : await pruneBackups(target, keep);
  target.close();
  terminal.print(`${id}  ${describe(manifest)}, ${copied} of the files new here`);
  for (const one of manifest.beside) terminal.print(`not saved without pg_dump: ${one}`);
  for (const path of manifest.blobs.missing) terminal.print(`without its bytes: ${path}`);
  if (pruned !== undefined) terminal.print(describePruned(pruned));
  const data = { target: target.name, backup: summaryOf(id, manifest), copied };
  return { data: { ...data, pruned: pruned === undefined ? null : forPrograms(pruned) } };
}

function recipientsOf(text = ''): readonly string[] {
  return text.split(/[\s,]+/).filter((one) => one !== '');
}

/** A bucket that is emptied, or lost, must not take the backups of its files with it. */
function assertApart({ name, place }: Target, { providers }: Config, { sameBucket }: Options): void {
  const { storage } = providers;
  if (place === undefined || storage.type !== 's3' || storage.bucket !== place.bucket) return;
  if (sameBucket === true && place.prefix !== '') return;
  throw failure(
    EXIT.misuse,
    `${name} is in the bucket of the stored files`,
    'Name another bucket, or say --same-bucket with a prefix of its own.',
  );
}
