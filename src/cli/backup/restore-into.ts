// Restores a backup into an empty database. Shared by `svc restore`, clone, upgrade and the restore drill.
import { basename } from 'node:path';
import type { Manifest } from '../../backup/manifest.ts';
import { restoreBlobs, restoreDump, settle, type SettleOptions } from '../../backup/restore.ts';
import { markRestored, markRestoring } from '../../backup/restoring.ts';
import { loadRows } from '../../backup/rows/load-rows.ts';
import type { OpenFile } from '../../backup/seal.ts';
import type { Target } from '../../backup/target/target.ts';
import type { Config } from '../../config/config.ts';
import type { DatabaseAddresses } from '../../postgres/address/database-addresses.ts';
import { asAdministrator, provisionRolesAlone } from '../../provision/provision.ts';
import type { Backend } from '../../storage/backend/backend.ts';
import type { Environment } from '../environment.ts';
import { asOwner } from '../migrate/database.ts';

type Restoring = {
  readonly folder: string;
  readonly manifest: Manifest;
  /** Opens the files of the backup. */
  readonly open: OpenFile;
  /** Addresses of a database that is empty or partly restored. */
  readonly addresses: DatabaseAddresses;
  readonly env: Environment;
  readonly config: Config;
  /** Undefined if the backup has no stored files, or if they are already in place. */
  readonly files?: { readonly target: Target; readonly backend: Backend };
  readonly settling: SettleOptions;
};

type Restored = {
  readonly files: number;
  /** Number of queued mails that were dropped. */
  readonly mails: number;
};

export async function restoreInto(options: Restoring): Promise<Restored> {
  const { manifest, addresses, env, settling } = options;
  const files = await copyFiles(options);
  const { mails } = await asOwner(addresses, env, { applicationName: 'svc-restore', max: 2 }, (owner) =>
    settle(owner, manifest, settling),
  );
  await asAdministrator(addresses, markRestored);
  return { files, mails };
}

/** Copies files and rows. Files come first, because rows refer to them. Returns the number of files. */
async function copyFiles({
  folder,
  manifest,
  open,
  addresses,
  env,
  config,
  files,
}: Restoring): Promise<number> {
  const copyStoredFiles = async (): Promise<number> =>
    files === undefined ? 0 : (await restoreBlobs(files.target, folder, files.backend, open)).files;
  if (manifest.engine === 'pg_dump') {
    await provisionRolesAlone(addresses);
    const copied = await copyStoredFiles();
    await restoreDump(folder, manifest, addresses.direct, env, open);
    return copied;
  }
  await asAdministrator(addresses, (admin) => markRestoring(admin, basename(folder)));
  return await asOwner(
    addresses,
    env,
    { applicationName: 'svc-restore', max: 3 },
    async (owner, _, roles) => {
      const copied = await copyStoredFiles();
      await loadRows(folder, owner, roles.owner.direct, config, open);
      return copied;
    },
  );
}
