// What svc works with beside its database: stored files, mail, programs for backups.
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
import { bad, type Look, ok, warning } from './check.ts';
import { spaceOf } from './machine.ts';

/** Writes, reads and deletes a blob that nothing names. */
export const storage =
  (config: Config, owner: OwnerDatabase): Look =>
  async () => {
    const backend = createBackend(config);
    try {
      await backend.check();
      // Before the first start nothing is recorded, and this would do it.
      const known = await owner.query(raw(`select from storage.settings where key = 'location'`));
      if (known.length > 0) await verifyLocation(owner, backend);
      const version = randomUUID();
      const probe = Buffer.from('probe of svc doctor');
      await backend.write(version, once(probe), probe.length);
      const found = await backend.read(version, probe.length);
      const read = Buffer.isBuffer(found) ? found : Buffer.concat(await Array.fromAsync<Buffer>(found));
      const failed = await backend.remove([{ version, staged: false }]);
      if (!read.equals(probe)) return bad('a file that was written is read as another');
      if (failed.size > 0) return bad('a file cannot be deleted', 'give the key or the user that right');
      const { place } = backend;
      return 'bucket' in place
        ? ok(`bucket ${place.bucket}: written, read and deleted`)
        : await spaceOf(place.directory);
    } finally {
      backend.close();
    }
  };

/** No mail is sent. */
export const mail =
  (config: Config): Look =>
  async () => {
    const provider = config.providers.email;
    if (!provider)
      return config.auth.email?.verifyEmail
        ? bad(
            'auth.email.verify_email is on, and there is no provider of mail',
            'providers.email in svc.yaml',
          )
        : ok('no provider: mails are not sent');
    if (provider.type !== 'smtp') return ok(`${provider.type}: known by its name; no mail was sent`);
    const options = readSmtpUrl(provider.url ?? '');
    if (!options) return bad('providers.email.url is not understood', 'smtp://user:password@host:587');
    const socket = connect({ host: options.host, port: options.port });
    try {
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
      return ok(`${options.host}:${options.port} answers; no mail was sent`);
    } catch {
      return bad(
        `${options.host}:${options.port} cannot be reached`,
        'many hosts close port 25 and 465: try 587',
      );
    } finally {
      socket.destroy();
    }
  };

export const backup =
  (owner: Queryable, env: Environment): Look =>
  async () => {
    const [row] = await owner.query<{ major: number }>(
      raw(`select current_setting('server_version_num')::int / 10000 as major`),
    );
    try {
      const { major } = await findTool('pg_dump', row?.major ?? 0, env);
      return ok(`pg_dump ${major} saves everything`);
    } catch {
      return warning(
        'svc backup saves what svc.yaml declares: there is no pg_dump of this version',
        `apt-get install postgresql-client-${row?.major ?? ''}, or SVC_PG_BIN`,
      );
    }
  };
