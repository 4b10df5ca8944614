// Restores a backup into a temporary database, to prove that it can be restored.
import { randomBytes } from 'node:crypto';
import { readBlobs, readWholeManifest } from '../../backup/manifest.ts';
import { assertKey, createOpener } from '../../backup/restore.ts';
import type { Target } from '../../backup/target/target.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import type { DatabaseAddresses } from '../../postgres/address/database-addresses.ts';
import { ident, raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { asAdministrator } from '../../provision/provision.ts';
import { requireKeys } from '../environment.ts';
import { asOwner, openDatabase } from '../migrate/database.ts';
import type { Project } from '../project/project.ts';
import { restoreInto } from './restore-into.ts';

export type RestoreDrill = {
  readonly target: Target;
  readonly folder: string;
  readonly identity: string | undefined;
  readonly project: Project;
};

/**
 * Throws if the restore fails, or if stored files are not in the backup. Does not read the bytes of the
 * files.
 */
export async function runRestoreDrill({ target, folder, identity, project }: RestoreDrill): Promise<void> {
  const { config, env, directory } = project;
  const open = await createOpener(target, folder, identity ?? env['SVC_BACKUP_IDENTITY_FILE']);
  const manifest = await readWholeManifest(target, folder, open);
  const { current, previous } = environmentSecrets(requireKeys(env).secret, env);
  assertKey(manifest, [current, ...previous]);
  const database = await openDatabase(env, directory);
  try {
    await inScratchDatabase(database.addresses, async (addresses) => {
      const settling = { keepMail: true, sweepAfterMs: 0 };
      await restoreInto({ folder, manifest, open, addresses, env, config, settling });
      const kept = new Set<string>();
      for await (const { version } of readBlobs(target, folder)) kept.add(version);
      await asOwner(addresses, env, { applicationName: 'svc-verify', max: 1 }, async (owner) => {
        const files = await owner.query<{ version: string; path: string }>(
          sql`select version, bucket_id || '/' || name as path from storage.objects`,
        );
        const missing = new Set(manifest.blobs.missing);
        const lost = files.filter(({ version, path }) => !kept.has(version) && !missing.has(path));
        if (lost.length > 0)
          throw new Problem('backup_damaged', 500, `${lost.length} stored files are not in the backup`, {
            details: lost
              .slice(0, 10)
              .map(({ path }) => path)
              .join('\n'),
            hint: 'Create a new backup.',
          });
      });
    });
  } finally {
    await database.close();
  }
}

/** Creates a database on the project's server, runs `work` and drops the database in any case. */
async function inScratchDatabase(
  { direct }: DatabaseAddresses,
  work: (addresses: DatabaseAddresses) => Promise<void>,
): Promise<void> {
  const name = `svc_verify_${randomBytes(4).toString('hex')}`;
  const home = { data: direct, direct };
  // Uses template0, because template1 may contain objects of a user.
  await asAdministrator(home, async (admin) => {
    await admin.query(sql`create database ${ident(name)} template template0`);
  });
  try {
    const scratch = direct.on(name);
    await work({ data: scratch, direct: scratch });
  } finally {
    await asAdministrator(home, async (admin) => {
      await admin.query(sql`drop database if exists ${ident(name)} ${raw('with (force)')}`);
    });
  }
}
