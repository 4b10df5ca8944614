// The work of a restore, into a database that is empty: what `svc restore`, a clone, an upgrade and a rehearsal have in common.
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
  /** How its files are read. */
  readonly open: OpenFile;
  /** Of a database that is empty, or half restored. */
  readonly addresses: DatabaseAddresses;
  readonly env: Environment;
  readonly config: Config;
  /** Without them the backup has none, or they are there. */
  readonly files?: { readonly target: Target; readonly backend: Backend };
  readonly settling: SettleOptions;
};

type Restored = {
  readonly files: number;
  /** That waited then, and were dropped. */
  readonly mails: number;
};

export async function restoreInto(options: Restoring): Promise<Restored> {
  const { manifest, addresses, env, settling } = options;
  const files = await bring(options);
  const { mails } = await asOwner(addresses, env, { applicationName: 'svc-restore', max: 2 }, (owner) =>
    settle(owner, manifest, settling),
  );
  await asAdministrator(addresses, markRestored);
  return { files, mails };
}

/** Files first: rows name them. Answers how many. */
async function bring({ folder, manifest, open, addresses, env, config, files }: Restoring): Promise<number> {
  const bringFiles = async (): Promise<number> =>
    files === undefined ? 0 : (await restoreBlobs(files.target, folder, files.backend, open)).files;
  if (manifest.engine === 'pg_dump') {
    await provisionRolesAlone(addresses);
    const brought = await bringFiles();
    await restoreDump(folder, manifest, addresses.direct, env, open);
    return brought;
  }
  await asAdministrator(addresses, (admin) => markRestoring(admin, basename(folder)));
  return await asOwner(
    addresses,
    env,
    { applicationName: 'svc-restore', max: 3 },
    async (owner, _, roles) => {
      const brought = await bringFiles();
      await loadRows(folder, owner, roles.owner.direct, config, open);
      return brought;
    },
  );
}
