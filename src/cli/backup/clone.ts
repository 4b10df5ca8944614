// `svc clone`: creates a development database from a backup or from another svc database, without its
// secrets.
import { existsSync } from 'node:fs';
import { copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { copyFiles, type FilesOfBackup, type StoredFile, storedFiles } from '../../backup/clone/files.ts';
import { type CloneChoice, loadClone, saveForClone } from '../../backup/clone/clone.ts';
import { parseMask, withSchema } from '../../backup/clone/masks.ts';
import { readWholeManifest } from '../../backup/manifest.ts';
import { chooseBackup, createOpener, verifyBackup } from '../../backup/restore.ts';
import { assertEmpty, markRestored, markRestoring } from '../../backup/restoring.ts';
import { removeState, runningUrl, startEmbeddedPostgres } from '../../embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../log/log.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import {
  databaseAddresses,
  oneAddress,
  type DatabaseAddresses,
} from '../../postgres/address/database-addresses.ts';
import { asAdministrator } from '../../provision/provision.ts';
import type { Backend } from '../../storage/backend/backend.ts';
import { LocalBackend } from '../../storage/backend/local.ts';
import { createBackend } from '../../storage/storage.ts';
import { confirm } from '../database/confirm.ts';
import { EXIT, failure } from '../exit.ts';
import { asOwner } from '../migrate/database.ts';
import { loadProject, type Project } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { writeCloneNote } from './clone-note.ts';
import { openBackupTarget } from './choose-target.ts';
import { restoreInto } from './restore-into.ts';

type Options = {
  config?: string;
  from?: string;
  identity?: string;
  to: string;
  mask: readonly string[];
  keepUsers?: string;
  table: readonly string[];
  blobs: boolean;
  publicBlobs?: boolean;
  unmasked?: boolean;
};

const CLONED = z.strictObject({
  source: z.string(),
  masked: z.array(z.string()).describe('requested masks'),
  rows: z.int(),
  users: z.int(),
  files: z.int(),
  kept: z.string().nullable().describe('path of the previous development database; null if there was none'),
});

/** The restored source is only read and then deleted, so nothing of it needs to settle. */
const NO_SETTLING = { keepMail: true, sweepAfterMs: 0 };
const IS_URL = /^postgres(?:ql)?:\/\//;
const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

export function cloneCommand(terminal: Terminal): Command {
  const command = new Command('clone')
    .description('create a development database from a backup or another database, without its secrets')
    .option('-c, --config <file>', 'the configuration file')
    .option('--from <source>', 'target for backups, <target>#<id>, or postgres://… (default: SVC_CLONE_FROM)')
    .option(
      '--identity <file>',
      'file with private keys of age, for an encrypted backup (default: SVC_BACKUP_IDENTITY_FILE)',
    )
    .option('--to <target>', 'dev (the database of svc dev), or the URL of an empty database', 'dev')
    .option('--mask <table.column=how>', 'mask a column: null, hash, email or text; repeatable', collect, [])
    .option('--keep-users <pattern>', 'keep users whose address matches, and mask all others')
    .option('--table <name=rows>', 'rows to copy: all, none or an SQL condition; repeatable', collect, [])
    .option('--no-blobs', 'do not copy stored files')
    .option('--public-blobs', 'copy only stored files of public buckets')
    .option('--unmasked', 'copy everything unmasked')
    .addHelpText(
      'after',
      '\nExample:\n  svc clone --from /var/backups/svc ' +
        "--mask auth.users.email=email --mask orders.note=text --keep-users '*@example.com'\n\n" +
        'Sessions, tokens, signing keys, second factors and queued mail are never cloned.\n' +
        'The previous database of svc dev is kept in .svc/postgres.before-clone until the next clone.',
    );
  return reporting(command, terminal, CLONED, async (out, options: Options) => {
    const data = await clone(options, out);
    out.print(`cloned ${data.source}: ${data.rows} rows, ${data.users} users, ${data.files} files`);
    if (data.kept !== null) out.print(`The previous database is kept in ${data.kept} until the next clone.`);
    return { data };
  });
}

async function clone(options: Options, terminal: Terminal): Promise<z.input<typeof CLONED>> {
  const project = await loadProject({ ...options, mode: 'development' }, terminal);
  const from = options.from ?? project.env['SVC_CLONE_FROM'] ?? '';
  if (from === '')
    throw failure(
      EXIT.misuse,
      '--from is missing',
      'Use --from <backup> or --from postgres://…, or set SVC_CLONE_FROM.',
    );
  if (options.to !== 'dev' && !IS_URL.test(options.to))
    throw failure(EXIT.misuse, `${options.to} is not a database`, 'Use --to dev or --to postgres://….');
  const choice = parseChoice(options, { from });
  await assertMasked(options);
  const state = join(project.directory, '.svc');
  const work = join(state, 'clone');
  if (options.to === 'dev') await assertDevelopment(project, state);
  // Removes the rest of a killed run first: it may contain rows that were not chosen.
  await removeState(join(work, 'source'));
  await removeState(work);
  await mkdir(work, { recursive: true });
  try {
    const chosen = join(work, 'chosen');
    const { source, rows, users, blobs } = await withSource(
      { from, identity: options.identity },
      { project, work, terminal },
      async (address) => saveForClone(address, chosen, choice),
    );
    const total = Object.values(rows).reduce((sum, count) => sum + count, 0);
    const masked = [
      ...options.mask,
      ...(options.keepUsers === undefined ? [] : [`users but ${options.keepUsers}`]),
    ];
    const result = { source, masked, rows: total, users };
    if (options.to !== 'dev') {
      await intoDatabase(options.to, chosen, project);
      return { ...result, files: 0, kept: null };
    }
    const { files, kept } = await intoDevelopment(project, { state, work, chosen, blobs });
    await writeCloneNote(state, { source, masked });
    return { ...result, files, kept };
  } finally {
    await removeState(join(work, 'source'));
    await removeState(work);
  }
}

function parseChoice(options: Options, { from }: { readonly from: string }): CloneChoice {
  const tables = new Map<string, string>();
  for (const text of options.table) {
    const [, table = '', rows = ''] = /^([^=\s]+)=(.+)$/s.exec(text) ?? [];
    if (table === '')
      throw failure(
        EXIT.misuse,
        `--table ${text} is not valid`,
        'Use <table>=all, <table>=none or <table>=<SQL condition>.',
      );
    tables.set(withSchema(table), rows);
  }
  // Only backups contain the bytes of stored files, and only the store of svc dev receives them.
  const hasFiles = options.blobs && options.to === 'dev' && !IS_URL.test(from);
  return {
    masks: options.mask.map(parseMask),
    keepUsers: options.keepUsers,
    tables,
    files: !hasFiles ? 'none' : options.publicBlobs === true ? 'public' : 'all',
  };
}

async function assertMasked({ mask, keepUsers, unmasked }: Options): Promise<void> {
  if (mask.length > 0 || keepUsers !== undefined || unmasked === true) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw failure(
      EXIT.misuse,
      'nothing would be masked: the clone would contain addresses and all texts of users',
      "Choose what to mask (--mask auth.users.email=email, --keep-users '*@example.com'), or use --unmasked.",
    );
  await confirm(
    'Nothing is masked: the clone will contain addresses and all texts of users. Continue?',
    false,
  );
}

async function assertDevelopment({ env }: Project, state: string): Promise<void> {
  const named = databaseAddresses(env);
  if (named)
    throw failure(
      EXIT.misuse,
      `SVC_DATABASE_URL is set to ${named.direct.describe()}, which is not the database of svc dev`,
      'Unset it, or use --to with the URL of an empty database.',
    );
  if ((await runningUrl(state)) !== undefined)
    throw failure(EXIT.problem, 'svc dev is running on this database', 'Stop it, then run svc clone again.');
}

type Source<T> = T & {
  /** Name of the source in messages. */
  readonly source: string;
  /** The backup with the bytes of the stored files. */
  readonly blobs: FilesOfBackup | undefined;
};

/** Reads the source. A backup is first restored into a temporary database in the work folder. */
async function withSource<T>(
  { from, identity }: { readonly from: string; readonly identity: string | undefined },
  {
    project,
    work,
    terminal,
  }: { readonly project: Project; readonly work: string; readonly terminal: Terminal },
  read: (address: DatabaseAddress) => Promise<T>,
): Promise<Source<T>> {
  if (IS_URL.test(from)) {
    const { direct } = oneAddress(from);
    terminal.printError(`reading ${direct.describe()}\n`);
    return { ...(await read(direct)), source: direct.describe(), blobs: undefined };
  }
  const [, place = from, id] = /^(.*)#([^#/]+)$/.exec(from) ?? [];
  const target = await openBackupTarget({ to: place }, project.env);
  const folder = await chooseBackup(target, id);
  const { store } = await verifyBackup(target, folder);
  const open = await createOpener(target, folder, identity ?? project.env['SVC_BACKUP_IDENTITY_FILE']);
  const manifest = await readWholeManifest(target, folder, open);
  terminal.printError(`reading ${target.name}/${folder}\n`);
  const running = await startEmbeddedPostgres({ dir: join(work, 'source'), log: silentLog });
  try {
    const addresses = oneAddress(running.url);
    const { config, env } = project;
    await restoreInto({ folder, manifest, open, addresses, env, config, settling: NO_SETTLING });
    return {
      ...(await read(addresses.direct)),
      source: `backup ${basename(folder)}`,
      blobs: { store, open },
    };
  } finally {
    await running.stop();
  }
}

async function intoDatabase(url: string, chosen: string, { env, config }: Project): Promise<void> {
  const addresses = oneAddress(url);
  await asAdministrator(addresses, (admin) => assertEmpty(admin, 'clone'));
  await asAdministrator(addresses, (admin) => markRestoring(admin, 'clone'));
  await load(addresses, chosen, { env, config });
  await asAdministrator(addresses, markRestored);
}

async function load(
  addresses: DatabaseAddresses,
  chosen: string,
  { env, config }: Pick<Project, 'env' | 'config'>,
  after: (versions: () => Promise<readonly StoredFile[]>) => Promise<number> = async () => 0,
): Promise<number> {
  return await asOwner(addresses, env, { applicationName: 'svc-clone', max: 3 }, async (owner, _, roles) => {
    await loadClone(chosen, owner, roles.owner.direct, config);
    return await after(() => storedFiles(owner));
  });
}

type Places = {
  readonly state: string;
  readonly work: string;
  readonly chosen: string;
  readonly blobs: FilesOfBackup | undefined;
};

/** Replaces the previous database and the files below `.svc` only after the clone is complete. */
async function intoDevelopment(
  project: Project,
  { state, work, chosen, blobs }: Places,
): Promise<{ readonly files: number; readonly kept: string | null }> {
  const { config, directory } = project;
  const password = join(state, 'postgres.password');
  // The password stays the same, so that it works for either database.
  if (existsSync(password)) await copyFile(password, join(work, 'postgres.password'));
  const { storage } = config.providers;
  const store =
    storage.type === 'local'
      ? resolve(config.source.dataDirectory ?? config.source.directory ?? directory, storage.path)
      : undefined;
  const isOurs = store?.startsWith(join(state, '/')) === true;
  const staged = join(work, 'files');
  const backend: Backend = isOurs ? new LocalBackend(staged) : createBackend(config);
  const running = await startEmbeddedPostgres({ dir: work, log: silentLog });
  let files = 0;
  try {
    files = await load(oneAddress(running.url), chosen, project, async (versions) =>
      blobs === undefined ? 0 : await copyFiles(blobs, await versions(), backend),
    );
  } finally {
    backend.close();
    await running.stop();
  }
  const swap = async (from: string, to: string): Promise<boolean> => {
    const had = existsSync(to);
    if (had) {
      await rm(`${to}.before-clone`, { recursive: true, force: true });
      await rename(to, `${to}.before-clone`);
    }
    if (existsSync(from)) await rename(from, to);
    return had;
  };
  const data = join(state, 'postgres');
  if (isOurs && store !== undefined) await swap(staged, store);
  const had = await swap(join(work, 'postgres'), data);
  if (!existsSync(password)) await rename(join(work, 'postgres.password'), password);
  return { files, kept: had ? `${data}.before-clone` : null };
}
