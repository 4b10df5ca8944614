// A backup is restored into a database that is made for it and removed again: that it comes back is tried, not believed.
import { randomBytes } from 'node:crypto';
import { readBlobs, readWholeManifest } from '../../backup/manifest.ts';
import { assertKey, openerOf } from '../../backup/restore.ts';
import type { Target } from '../../backup/target/target.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import type { DatabaseAddresses } from '../../postgres/address/database-addresses.ts';
import { ident, raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { asAdministrator } from '../../provision/provision.ts';
import { requireKeys } from '../environment.ts';
import { asOwner, openDatabase } from '../migrate/database.ts';
import type { Project } from '../project.ts';
import { restoreInto } from './restore-into.ts';

export type Rehearsal = {
  readonly target: Target;
  readonly folder: string;
  readonly identity: string | undefined;
  readonly project: Project;
};

/** Throws when it does not come back, or names stored files that are not in the backup. Their bytes are not read here. */
export async function rehearse({ target, folder, identity, project }: Rehearsal): Promise<void> {
  const { config, env, directory } = project;
  const open = await openerOf(target, folder, identity ?? env['SVC_BACKUP_IDENTITY_FILE']);
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
            hint: 'Take another backup.',
          });
      });
    });
  } finally {
    await database.close();
  }
}

/** Beside the one of the project, at its server, and gone afterwards whatever happens. */
async function inScratchDatabase(
  { direct }: DatabaseAddresses,
  work: (addresses: DatabaseAddresses) => Promise<void>,
): Promise<void> {
  const name = `svc_verify_${randomBytes(4).toString('hex')}`;
  const home = { data: direct, direct };
  // Not from template1, which may have objects of somebody.
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
