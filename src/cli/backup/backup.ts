// `svc backup`: saves the database and the stored files of one moment to a folder or a bucket.
import { basename } from 'node:path';
import { Command, Option } from 'commander';
import { z } from 'zod';
import { makeBackup } from '../../backup/backup.ts';
import { backupFolder, listBackups, readManifest } from '../../backup/manifest.ts';
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
import { loadServed } from '../project/served-project.ts';
import type { Terminal } from '../terminal.ts';
import { openBackupTarget } from './choose-target.ts';
import { runRestoreDrill } from './restore-drill.ts';
import { describe, SUMMARY, summarize } from './summary.ts';

const PRUNED = z.strictObject({
  removed: z.array(z.string()),
  kept: z.array(z.string()),
  files: z.int().describe('stored files that no backup contains any more'),
  bytes: z.int().describe('total size of these files'),
  busy: z.boolean().describe('a backup was running, so stored files are kept until the next prune'),
});
const CREATED = z.strictObject({
  target: z.string(),
  backup: SUMMARY,
  copied: z.int().describe('stored files that were new to the target'),
  pruned: PRUNED.nullable().describe('null without --keep'),
});
const LISTED = z.strictObject({ target: z.string(), backups: z.array(SUMMARY).describe('oldest first') });
const VERIFIED = z.strictObject({
  target: z.string(),
  backup: SUMMARY,
  restored: z.boolean().describe('whether the backup was also restored, with --restore'),
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
    .description('save the database and the stored files of one moment, while the service keeps running')
    .option('-c, --config <file>', 'the configuration file')
    .addOption(targetOption())
    .option('--same-bucket', 'allow the bucket of the stored files, with a prefix')
    .addOption(
      new Option('--engine <name>', 'engine that saves the database: pg_dump, or svc itself (copy)')
        .choices(['auto', 'pg_dump', 'copy'])
        .default('auto'),
    )
    .option('--allow-missing', 'skip objects that only pg_dump can save, and list them')
    .option('--skip-missing', 'skip files whose bytes are missing, and list them')
    .option(
      '--encrypt-to <recipient>',
      'public key of age; repeatable',
      (recipient, all) => [...all, recipient],
      [] as readonly string[],
    )
    .option('--verify', 'read the backup afterwards and compare every byte')
    .option('--keep <periods>', 'remove older backups afterwards, as prune does: 7d,4w,12m')
    .addHelpText(
      'after',
      '\nExample:\n  svc backup --to /var/backups/svc\n\n' +
        'It runs pg_dump if its version is that of the server or newer. ' +
        'Otherwise svc saves what svc.yaml declares.\n' +
        'A backup does not contain secrets of the environment: store SVC_SECRET_KEY elsewhere.',
    );
  reporting(command, terminal, CREATED, async (out, options: Options) => await backup(options, out));
  addListCommand(command, terminal);
  addPruneCommand(command, terminal);
  addVerifyCommand(command, terminal);
  return command;
}

function targetOption(): Option {
  return new Option(
    '--to <place>',
    'target for backups: a folder, or s3://bucket/prefix (default: SVC_BACKUP_TARGET)',
  );
}

function addListCommand(command: Command, terminal: Terminal): void {
  const list = command
    .command('list')
    .description('list the backups, oldest first')
    .addOption(targetOption());
  reporting(list, terminal, LISTED, async (out, own: Options, { parent }: Command) => {
    const target = await openBackupTarget({ ...parent?.opts<Options>(), ...own }, process.env);
    try {
      const backups: Array<z.infer<typeof SUMMARY>> = [];
      for (const id of await listBackups(target)) {
        const manifest = await readManifest(target, backupFolder(id));
        backups.push(summarize(id, manifest));
        out.print(`${id}  ${describe(manifest)}`);
      }
      if (backups.length === 0) out.print(`no complete backup in ${target.name}`);
      return { data: { target: target.name, backups } };
    } finally {
      target.close();
    }
  });
}

function addPruneCommand(command: Command, terminal: Terminal): void {
  const prune = command
    .command('prune')
    .description('remove old backups, and stored files that no other backup contains')
    .option(
      '--keep <periods>',
      'keep the newest backup of each of the last days, weeks and months: 7d,4w,12m',
    )
    .addOption(targetOption())
    .option('--dry-run', 'list what would be removed, without removing it');
  reporting(prune, terminal, PRUNED, async (out, own: Options, { parent }: Command) => {
    const options = { ...parent?.opts<Options>(), ...own };
    const { keep } = options;
    if (keep === undefined) throw failure(EXIT.misuse, '--keep is missing', 'For example: --keep 7d,4w,12m.');
    const target = await openBackupTarget(options, process.env);
    const pruned = await pruneBackups(target, parseKeep(keep), options).finally(() => target.close());
    out.print(describePruned(pruned, options.dryRun));
    return { data: toData(pruned) };
  });
}

function addVerifyCommand(command: Command, terminal: Terminal): void {
  const verify = command
    .command('verify')
    .description('read a backup and compare every byte with its hashes')
    .argument('[id]', 'id of the backup (default: the newest)')
    .addOption(targetOption())
    .option('--restore', 'also restore it into a temporary database')
    .option(
      '--identity <file>',
      'with --restore: file with private keys of age, for an encrypted backup (default: SVC_BACKUP_IDENTITY_FILE)',
    );
  reporting(
    verify,
    terminal,
    VERIFIED,
    async (out, named: string | undefined, own: VerifyOptions, { parent }: Command) => {
      const options = { ...parent?.opts<Options>(), ...own };
      const project = options.restore === true ? await loadServed(options, out) : undefined;
      const target = await openBackupTarget(options, project?.env ?? process.env);
      try {
        const folder = await chooseBackup(target, named);
        const manifest = await verifyBackup(target, folder);
        if (project) await runRestoreDrill({ target, folder, identity: options.identity, project });
        const found = project ? 'is complete, and was restored' : 'is complete';
        out.print(`${target.name}/${folder} ${found}: ${describe(manifest)}`);
        const backup = summarize(basename(folder), manifest);
        return { data: { target: target.name, backup, restored: project !== undefined } };
      } finally {
        target.close();
      }
    },
  );
}

function toData({ removed, kept, files, bytes, busy }: Pruned): z.input<typeof PRUNED> {
  return { removed: [...removed], kept: [...kept], files, bytes, busy };
}

function describePruned({ removed, kept, files, bytes, busy }: Pruned, dryRun = false): string {
  const would = dryRun ? 'would be ' : '';
  return [
    ...removed.map((id) => `${would}removed  ${id}`),
    ...kept.map((id) => `kept  ${id}`),
    ...(files > 0
      ? [`${files} stored files that no backup contains ${would}removed: ${approximateBytes(bytes)}`]
      : []),
    ...(busy ? ['A backup is running, so stored files are kept until the next prune.'] : []),
  ].join('\n');
}

async function backup(options: Options, terminal: Terminal): Promise<Findings<z.input<typeof CREATED>>> {
  const keep = options.keep === undefined ? undefined : parseKeep(options.keep);
  const { config, env, directory } = await loadServed(options, terminal);
  const seal = await sealFor(
    options.encryptTo.length > 0 ? options.encryptTo : parseRecipients(env['SVC_BACKUP_RECIPIENTS']),
  );
  const target = await openBackupTarget(options, env);
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
      // A superuser can read everything. Any other administrator may read less than the owner.
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
  terminal.print(`${id}  ${describe(manifest)}, ${copied} files new to the target`);
  for (const object of manifest.beside) terminal.print(`not saved without pg_dump: ${object}`);
  for (const path of manifest.blobs.missing) terminal.print(`bytes missing: ${path}`);
  if (pruned !== undefined) terminal.print(describePruned(pruned));
  const data = { target: target.name, backup: summarize(id, manifest), copied };
  return { data: { ...data, pruned: pruned === undefined ? null : toData(pruned) } };
}

function parseRecipients(text = ''): readonly string[] {
  return text.split(/[\s,]+/).filter((recipient) => recipient !== '');
}

/** Throws unless backups and stored files are apart: the loss of one bucket must not destroy both. */
function assertApart({ name, place }: Target, { providers }: Config, { sameBucket }: Options): void {
  const { storage } = providers;
  if (place === undefined || storage.type !== 's3' || storage.bucket !== place.bucket) return;
  if (sameBucket === true && place.prefix !== '') return;
  throw failure(
    EXIT.misuse,
    `${name} is in the bucket of the stored files`,
    'Use another bucket, or --same-bucket with a separate prefix.',
  );
}
