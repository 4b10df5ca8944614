// Checks of the other services: stored files, mail, and backup programs.
import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { findTool } from '../../postgres/pg-tools.ts';
import type { Config } from '../../config/config.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { readSmtpUrl } from '../../auth/mail/smtp.ts';
import { once } from '../../storage/backend/backend.ts';
import { verifyLocation } from '../../storage/backend/location.ts';
import { createBackend } from '../../storage/storage.ts';
import type { Environment } from '../environment.ts';
import { bad, type Check, ok, warning } from './check.ts';
import { checkFreeSpace } from './machine.ts';

/** Writes, reads and deletes a file that has no row. */
export const storage =
  (config: Config, owner: OwnerDatabase): Check =>
  async () => {
    const backend = createBackend(config);
    try {
      await backend.check();
      // Before the first start nothing is recorded, and the check would record it.
      const known = await owner.query(raw(`select from storage.settings where key = 'location'`));
      if (known.length > 0) await verifyLocation(owner, backend);
      const version = randomUUID();
      const probe = Buffer.from('probe of svc doctor');
      await backend.write(version, once(probe), probe.length);
      const found = await backend.read(version, probe.length);
      const read = Buffer.isBuffer(found) ? found : Buffer.concat(await Array.fromAsync<Buffer>(found));
      const failed = await backend.remove([{ version, staged: false }]);
      if (!read.equals(probe)) return bad('a file was read with other content than was written');
      if (failed.size > 0)
        return bad('a file cannot be deleted', 'grant this permission to the key or the user');
      const { place } = backend;
      return 'bucket' in place
        ? ok(`bucket ${place.bucket}: written, read and deleted`)
        : await checkFreeSpace(place.directory);
    } finally {
      backend.close();
    }
  };

/** Checks the connection to the provider. Sends no mail. */
export const mail =
  (config: Config): Check =>
  async () => {
    const provider = config.providers.email;
    if (!provider)
      return config.auth.email?.verifyEmail
        ? bad('auth.email.verify_email is on, but there is no mail provider', 'providers.email in svc.yaml')
        : ok('no provider, so no mail is sent');
    if (provider.type !== 'smtp') return ok(`${provider.type} is configured; no mail was sent`);
    const options = readSmtpUrl(provider.url ?? '');
    if (!options) return bad('providers.email.url is not valid', 'smtp://user:password@host:587');
    const socket = connect({ host: options.host, port: options.port });
    try {
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
      return ok(`${options.host}:${options.port} responds; no mail was sent`);
    } catch {
      return bad(
        `${options.host}:${options.port} cannot be reached`,
        'many hosting providers block the ports 25 and 465; try 587',
      );
    } finally {
      socket.destroy();
    }
  };

export const backup =
  (owner: Queryable, env: Environment): Check =>
  async () => {
    const [row] = await owner.query<{ major: number }>(
      raw(`select current_setting('server_version_num')::int / 10000 as major`),
    );
    try {
      const { major } = await findTool('pg_dump', row?.major ?? 0, env);
      return ok(`svc backup uses pg_dump ${major}`);
    } catch {
      return warning(
        'there is no pg_dump of this version, so svc backup saves only what svc.yaml declares',
        `apt-get install postgresql-client-${row?.major ?? ''}, or SVC_PG_BIN`,
      );
    }
  };
