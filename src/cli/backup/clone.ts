// `svc clone`: a database for development out of a backup, or of another database of svc, without what opens something.
import { existsSync } from 'node:fs';
import { copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { copyFiles, type FilesOfBackup, type StoredFile, storedFiles } from '../../backup/clone/files.ts';
import { type CloneChoice, loadClone, saveForClone } from '../../backup/clone/clone.ts';
import { parseMask, withSchema } from '../../backup/clone/masks.ts';
import { readWholeManifest } from '../../backup/manifest.ts';
import { chooseBackup, openerOf, verifyBackup } from '../../backup/restore.ts';
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
import { loadProject, type Project } from '../project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { writeCloneNote } from './clone-note.ts';
import { targetOf } from './place.ts';
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
  masked: z.array(z.string()).describe('what it was asked to hide'),
  rows: z.int(),
  users: z.int(),
  files: z.int(),
  kept: z.string().nullable().describe('where the former development database is; null when there was none'),
});

/** It is read, and gone afterwards. */
const AS_IT_WAS = { keepMail: true, sweepAfterMs: 0 };
const IS_URL = /^postgres(?:ql)?:\/\//;
const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

export function cloneCommand(terminal: Terminal): Command {
  const command = new Command('clone')
    .description('make a database for development out of a backup or another database, without its secrets')
    .option('-c, --config <file>', 'the configuration file')
    .option('--from <source>', 'where backups are, <place>#<id>, or postgres://…; SVC_CLONE_FROM')
    .option(
      '--identity <file>',
      'private keys of age, for a backup that is encrypted; SVC_BACKUP_IDENTITY_FILE',
    )
    .option('--to <target>', 'dev, the database of svc dev, or an empty one: postgres://…', 'dev')
    .option('--mask <table.column=how>', 'null, hash, email or text; may be repeated', collect, [])
    .option('--keep-users <pattern>', 'users whose address matches stay as they are, all others are masked')
    .option('--table <name=rows>', 'all, none or a condition in SQL; may be repeated', collect, [])
    .option('--no-blobs', 'without stored files')
    .option('--public-blobs', 'only stored files of public buckets')
    .option('--unmasked', 'nothing needs to be masked')
    .addHelpText(
      'after',
      "\nExample:\n  svc clone --from /var/backups/svc --mask auth.users.email=email --mask orders.note=text --keep-users '*@example.com'\n\nSessions, tokens, signing keys, second factors and waiting mail are never cloned. The database of svc dev that was there is kept once, as .svc/postgres.before-clone.",
    );
  return reporting(command, terminal, CLONED, async (out, options: Options) => {
    const data = await clone(options, out);
    out.print(`cloned ${data.source}: ${data.rows} rows, ${data.users} users, ${data.files} files`);
    if (data.kept !== null) out.print(`The former database is ${data.kept}, until the next clone.`);
    return { data };
  });
}

async function clone(options: Options, terminal: Terminal): Promise<z.input<typeof CLONED>> {
  const project = await loadProject({ ...options, mode: 'development' }, terminal);
  const from = options.from ?? project.env['SVC_CLONE_FROM'] ?? '';
  if (from === '')
    throw failure(
      EXIT.misuse,
      'it is not said what to clone',
      'Say --from <backup> or --from postgres://…, or set SVC_CLONE_FROM.',
    );
  if (options.to !== 'dev' && !IS_URL.test(options.to))
    throw failure(EXIT.misuse, `${options.to} is no database`, 'Say --to dev or --to postgres://….');
  const choice = choiceOf(options, { from });
  await assertMasked(options);
  const state = join(project.directory, '.svc');
  const work = join(state, 'clone');
  if (options.to === 'dev') await assertDevelopment(project, state);
  // What is left of a run that was killed goes first: it has rows that were not chosen.
  await removeState(join(work, 'source'));
  await removeState(work);
  await mkdir(work, { recursive: true });
  try {
    const chosen = join(work, 'chosen');
    const { source, rows, users, blobs } = await fromSource(
      { from, identity: options.identity },
      { project, work, terminal },
      async (address) => saveForClone(address, chosen, choice),
    );
    const total = Object.values(rows).reduce((sum, one) => sum + one, 0);
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

function choiceOf(options: Options, { from }: { readonly from: string }): CloneChoice {
  const tables = new Map<string, string>();
  for (const text of options.table) {
    const [, table = '', rows = ''] = /^([^=\s]+)=(.+)$/s.exec(text) ?? [];
    if (table === '')
      throw failure(
        EXIT.misuse,
        `--table ${text} is not understood`,
        'Say <table>=all, <table>=none or <table>=<condition in SQL>.',
      );
    tables.set(withSchema(table), rows);
  }
  // The bytes are brought by backups, into the store of svc dev.
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
      'nothing would be masked: addresses and everything that people wrote would be in the clone',
      "Say what to hide (--mask auth.users.email=email, --keep-users '*@example.com'), or --unmasked.",
    );
  await confirm(
    'Nothing is masked: addresses and everything that people wrote will be in the clone. Go on?',
    false,
  );
}

async function assertDevelopment({ env }: Project, state: string): Promise<void> {
  const named = databaseAddresses(env);
  if (named)
    throw failure(
      EXIT.misuse,
      `SVC_DATABASE_URL names ${named.direct.describe()}, which is not the database of svc dev`,
      'Unset it, or say --to postgres://… of an empty database.',
    );
  if ((await runningUrl(state)) !== undefined)
    throw failure(EXIT.problem, 'svc dev is running on this database', 'Stop it, then clone.');
}

type Source<T> = T & {
  /** As messages name it. */
  readonly source: string;
  /** That has the bytes. */
  readonly blobs: FilesOfBackup | undefined;
};

/** A backup becomes a database first, in the folder of work, and nothing of that stays. */
async function fromSource<T>(
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
  const target = await targetOf({ to: place }, project.env);
  const folder = await chooseBackup(target, id);
  const { store } = await verifyBackup(target, folder);
  const open = await openerOf(target, folder, identity ?? project.env['SVC_BACKUP_IDENTITY_FILE']);
  const manifest = await readWholeManifest(target, folder, open);
  terminal.printError(`reading ${target.name}/${folder}\n`);
  const running = await startEmbeddedPostgres({ dir: join(work, 'source'), log: silentLog });
  try {
    const addresses = oneAddress(running.url);
    const { config, env } = project;
    await restoreInto({ folder, manifest, open, addresses, env, config, settling: AS_IT_WAS });
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

/** The former database and the files below `.svc` are put aside only when everything is there. */
async function intoDevelopment(
  project: Project,
  { state, work, chosen, blobs }: Places,
): Promise<{ readonly files: number; readonly kept: string | null }> {
  const { config, directory } = project;
  const password = join(state, 'postgres.password');
  // The same one, so that either database is found by it.
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
